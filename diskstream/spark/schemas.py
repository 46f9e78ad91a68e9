"""Columns of entries: what a schema asks for, and how a scanned batch becomes it.

A name stands for part of an entry where the table in docs/spark.md says so; any other is a field of that name, and
``field:name`` is one whatever it is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from diskstream.errors import ArgumentError
from diskstream.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CORRUPT", "PREFIX", "Plan", "check_part", "default_schema", "is_part", "plan"]

CORRUPT = "_corrupt"
# Of a column that is a field whatever it is called.
PREFIX = "field:"
_FIELD = st.StructType([st.StructField("name", st.BinaryType()), st.StructField("value", st.BinaryType())])
_FIELDS = st.ArrayType(_FIELD)
_MAP = st.MapType(st.BinaryType(), st.BinaryType())
_IDS: list[tuple[str, st.DataType]] = [
    ("stream", st.StringType()),
    ("id_ms", st.LongType()),
    ("id_seq", st.LongType()),
    ("ts", st.TimestampType()),
]
_METADATA: list[tuple[str, st.DataType]] = [
    ("segment", st.LongType()),
    ("position", st.LongType()),
    ("size_bytes", st.LongType()),
]
_PARTS: dict[str, tuple[st.DataType, ...]] = {
    **{name: (kind,) for name, kind in [*_IDS, *_METADATA]},
    "id": (st.StringType(),),
    "fields": (_FIELDS, _MAP),
    "entry": (st.BinaryType(),),
    CORRUPT: (_FIELDS,),
}
_KINDS: dict[type[st.DataType], str] = {
    st.ByteType: "int8",
    st.ShortType: "int16",
    st.IntegerType: "int32",
    st.LongType: "int64",
    st.FloatType: "float",
    st.DoubleType: "double",
    st.BooleanType: "bool",
    st.StringType: "string",
    st.BinaryType: "binary",
    st.DateType: "date",
    st.TimestampType: "timestamp",
    st.TimestampNTZType: "timestamp",
}


def default_schema(options: ReadOptions, typed: Sequence[tuple[str, str]] = ()) -> st.StructType:
    """What a read has without a schema of the user's.

    Args:
        options: of the read.
        typed: fields and types of an archive that has these only.

    Raises:
        ArgumentError: typed columns need one; the archive has a column of a type that there is not.
    """
    if typed:
        columns = [(f"{PREFIX}{name}" if _is_taken(name) else name, _of_kind(kind)) for name, kind in typed]
        return st.StructType([st.StructField(*each) for each in [*_IDS, *columns, (CORRUPT, _FIELDS)]])
    if options.layout == "typed":
        raise ArgumentError("layout=typed needs the columns: .schema('sensor string, value double')")
    body: dict[str, list[tuple[str, st.DataType]]] = {
        "fields": [("fields", _FIELDS)],
        "map": [("fields", _MAP)],
        "raw": [("entry", st.BinaryType())],
    }
    names = [*_IDS, *(_METADATA if options.include_metadata else []), *body[options.layout or "fields"]]
    return st.StructType([st.StructField(name, kind) for name, kind in names])


@dataclass(frozen=True)
class Plan:
    """How to scan for a schema: the arguments of `Stream.scan`, and the columns to make of its batches."""

    layout: str
    columns: tuple[tuple[bytes, str], ...]
    metadata: bool
    names: tuple[str, ...]
    schema: st.StructType

    def assembler(self, *, large_ids: str) -> "Callable[[str, pa.RecordBatch], pa.RecordBatch]":
        """A function of a stream's name and a scanned batch, which gives what Spark takes: see `_assemble`."""
        from pyspark.sql.pandas.types import to_arrow_schema

        target: Any = to_arrow_schema(self.schema, timezone="UTC")
        return lambda stream, batch: _assemble(self, target, stream, batch, wrap=large_ids == "wrap")


def _kind_of(column: st.StructField) -> str:
    kind = column.dataType
    if isinstance(kind, st.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    for known, word in _KINDS.items():
        if type(kind) is known:
            return word
    raise ArgumentError(
        f"column {column.name}: a field cannot be read as {kind.simpleString()}; choose a number, boolean, string, "
        "binary, date or timestamp"
    )


def _of_kind(kind: str) -> st.DataType:
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        return st.DecimalType(precision, scale)
    for known, word in _KINDS.items():
        if word == kind:
            return known()
    raise ArgumentError(f"the archive has a column of no known type: {kind}")


def is_part(name: str) -> bool:
    """Whether a column of this name stands for part of an entry."""
    return name in _PARTS


def _is_taken(name: str) -> bool:
    """Whether a column of this name does not stand for the field that has it."""
    return is_part(name) or name.startswith(PREFIX)


def check_part(column: st.StructField) -> None:
    """Looks whether a column that stands for part of an entry has its type.

    Raises:
        ArgumentError: it has another; so it may be meant as a field.
    """
    parts = _PARTS[column.name]
    if not any(_alike(column.dataType, part) for part in parts):
        wanted = " or ".join(part.simpleString() for part in parts)
        raise ArgumentError(
            f"column {column.name} is {column.dataType.simpleString()}, but it stands for part of an entry, which is "
            f"{wanted}; a field of that name is column `{PREFIX}{column.name}`"
        )


def plan(schema: st.StructType, options: ReadOptions) -> Plan:
    """What to scan for a schema.

    Raises:
        ArgumentError: a column of a type that it cannot have, two of one name, or layouts that exclude each other.
    """
    typed: list[tuple[bytes, str]] = []
    names: list[str] = []
    layouts: set[str] = set()
    for column in schema.fields:
        if column.name in names:  # Spark's own error says nothing of columns
            raise ArgumentError(f"two columns are called {column.name}: leave one out, or rename it behind the read")
        if not is_part(column.name):
            typed.append((column.name.removeprefix(PREFIX).encode(), _kind_of(column)))
            layouts.add("typed")
            names.append(column.name)
            continue
        check_part(column)
        if column.name == "fields":
            layouts.add("map" if isinstance(column.dataType, st.MapType) else "fields")
        elif column.name == "entry":
            layouts.add("raw")
        names.append(column.name)
    if CORRUPT in names and not typed:
        raise ArgumentError(f"column {CORRUPT} tells which typed columns did not parse, but there are none")
    if options.layout and layouts and layouts != {options.layout}:
        raise ArgumentError(f"layout={options.layout}, but the schema asks for {', '.join(sorted(layouts))}")
    if len(layouts) > 1:
        raise ArgumentError(f"one read has one layout; the schema asks for {' and '.join(sorted(layouts))}")
    metadata = any(name in names for name, _ in _METADATA)
    return Plan(layouts.pop() if layouts else "ids", tuple(typed), metadata, tuple(names), schema)


def _alike(given: st.DataType, wanted: st.DataType) -> bool:
    return bool(given.simpleString() == wanted.simpleString())


def _assemble(plan: Plan, target: Any, stream: str, batch: "pa.RecordBatch", *, wrap: bool) -> "pa.RecordBatch":
    """The columns in the order of the schema, of exactly the types that Spark takes.

    Raises:
        ArgumentError: an ID that a signed number cannot hold, unless `wrap`; a null where there must be none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Of columns that share a name, the part of the entry comes first, the field of that name later.
    fields = {name: at for at, name in reversed(list(enumerate(batch.schema.names)))}
    typed_at = batch.num_columns - len(plan.columns) - 1  # before `bad`
    arrays = []
    for name, column in zip(plan.names, target, strict=True):
        if name == "stream":
            array = pa.repeat(pa.scalar(stream, pa.string()), batch.num_rows)
        elif name in ("id_ms", "id_seq"):
            array = batch.column(fields[name])
            _check_signed(array, stream, wrap=wrap)
            array = array.view(pa.int64())
        elif name == "id":
            texts = [batch.column(fields[part]).cast(pa.string()) for part in ("id_ms", "id_seq")]
            array = pc.binary_join_element_wise(*texts, "-")
        elif name == CORRUPT:
            array = batch.column(batch.num_columns - 1)
        elif name in _PARTS:
            array = batch.column(fields[name])
        else:
            array = batch.column(typed_at)
            typed_at += 1
        if array.null_count and not column.nullable:
            raise ArgumentError(
                f"column {name} is NOT NULL, but entries of stream {stream} have no value for it: leave NOT NULL out"
            )
        if array.type != column.type:
            array = array.cast(column.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _check_signed(array: Any, stream: str, *, wrap: bool) -> None:
    if wrap or not len(array):
        return
    greatest = int(array.to_numpy().max())
    if greatest >= 1 << 63:
        raise ArgumentError(
            f"stream {stream} has IDs from 2^63 on ({greatest}), which a bigint cannot hold: choose largeIds=wrap "
            "(two's complement), or read the column id, which is text"
        )
