"""The options of the data source: their names, what they take, and which one a misspelt one may have meant.

Spark hands them over in lower case, and says nothing of those that nobody reads: here each is known, or refused.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from diskstream.errors import ArgumentError, InvalidIDError
from diskstream.ids import MAX_ID, MIN_ID, EntryID, parse_end, parse_id
from diskstream.spark.names import as_bytes

__all__ = ["Bounds", "ReadOptions", "WriteOptions", "local_path", "on_this_machine", "parse_duration_s"]

TABLES = ("entries", "groups", "consumers", "pending", "audit")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_POSITIONS = "earliest, latest, an ID as 1692632086370-0, or JSON of these by stream"
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# What Spark itself, or another part of a query, puts beside a source's options.
_FOREIGN = frozenset({"checkpointlocation", "querytype", "mergeschema", "pathoptionbeforesave", "queryname"})
# What a table of the catalog has beside its options, and Spark shows when it asks for the columns of one that was made
# without any. Later it shows neither these nor the options: a query has those that it gives itself.
_OF_TABLES = frozenset({"provider", "owner"})


def _text(value: str) -> str:
    return value


def local_path(value: str) -> str:
    """A path, also as Spark writes those of local files.

    Raises:
        ValueError: it is somewhere else than on this machine.
    """
    local = re.fullmatch(r"file:(?://)?(/(?!/).*)", value, re.DOTALL)
    if local is None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", value):
        raise ValueError("a directory of this machine, as /data/store")
    return local[1] if local else value


def on_this_machine(path: str, what: str) -> str:
    """A path that a job was told, as this machine has it.

    Args:
        path: of a directory, also as Spark writes those of local files.
        what: is there, with its article: ``a store``.

    Raises:
        ArgumentError: it is none, or somewhere else: it must not become a folder of that name where the job was
            started.
    """
    try:
        local = local_path(path)
    except ValueError:
        local = ""
    if not local or "://" in local:
        raise ArgumentError(f"{what} is in a folder of this machine so far, not at {path!r}")
    return local


def _report(value: str) -> str:
    """A path that tasks write to: as seen from the driver, since workers are started elsewhere."""
    return str(Path(local_path(value)).absolute()) if value else ""


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def _count(value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value) or int(value) < 1:
        raise ValueError("a whole number from 1 on")
    return int(value)


def _size(value: str) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([kmg]?)i?b?", value.strip().lower())
    if match is None or int(match[1]) < 1:
        raise ValueError("bytes, as 67108864 or 64m")
    return int(match[1]) * _SIZES[match[2]]


def parse_duration_s(value: str) -> float:
    """Seconds of ``500ms``, ``10s``, ``15m``, ``2h``, ``1d``, or of a bare number of seconds.

    Raises:
        ValueError: it is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", value.strip().lower())
    if match is None:
        raise ValueError("a duration, as 500ms, 10s, 15m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _choice(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        for word in words:
            if value.lower() == word.lower():
                return word
        raise ValueError(f"one of {', '.join(words)}")

    return parse


def _json(value: str, wanted: str, *, pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    try:
        return json.loads(value, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{wanted}; this is no JSON: {error}") from None


def _names(value: str) -> tuple[bytes, ...]:
    """Names apart by commas, or a JSON list where a name has one."""
    if value.lstrip().startswith("["):
        parts = _json(value, "names apart by commas, or a JSON list of names")
        if not parts or not all(isinstance(part, str) for part in parts):
            raise ValueError("names apart by commas, or a JSON list of names")
    else:
        parts = [part.strip() for part in value.split(",")]
    if not all(parts):
        raise ValueError("names apart by commas, none of them empty")
    return tuple(dict.fromkeys(as_bytes(part) for part in parts))


@dataclass(frozen=True)
class Bounds:
    """Where streams begin or end: a word or an ID for all of them, or one for each, by name."""

    default: EntryID | str
    by_stream: Mapping[bytes, EntryID | str] = field(default_factory=dict)

    def of(self, stream: bytes) -> EntryID | str:
        """``earliest``, ``latest``, or an ID."""
        return self.by_stream.get(stream, self.default)


def _position(value: object, *, end: bool) -> EntryID | str:
    if not isinstance(value, str):
        raise ValueError(_POSITIONS)  # noqa: TRY004  # told as any other value that an option cannot have
    if value.lower() in ("earliest", "latest"):
        return value.lower()
    try:
        found = {"-": MIN_ID, "+": MAX_ID}.get(value) or (parse_end(value) if end else parse_id(value))
    except InvalidIDError:
        raise ValueError(f"{_POSITIONS}; not {value!r}") from None
    # No entry has the least ID: who begins there means the beginning, whatever was trimmed.
    return "earliest" if found == MIN_ID and not end else found


def _bounds(value: str, *, end: bool = False) -> Bounds:
    """Bounds; at the `end` an ID without a sequence is the last of its millisecond, as in XRANGE."""
    if not value.lstrip().startswith("{"):
        return Bounds(_position(value.strip(), end=end))
    by_stream: dict[bytes, EntryID | str] = {}
    rest: EntryID | str = ""
    for name, at in _json(value, _POSITIONS, pairs=list):
        bound = _position(at, end=end)
        if rest if name == "*" else as_bytes(name) in by_stream:
            raise ValueError(f"{_POSITIONS}; {name!r} is a second bound for one")
        if name == "*":
            rest = bound
        else:
            by_stream[as_bytes(name)] = bound
    return Bounds(rest, by_stream)


def _ends(value: str) -> Bounds:
    return _bounds(value, end=True)


def _time_ms(value: str) -> int:
    if re.fullmatch(r"\d{1,32}", value):
        if int(value) > MAX_ID.ms:
            raise ValueError(f"milliseconds since 1970 up to {MAX_ID.ms}, the greatest of an ID")
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("milliseconds since 1970, or a time as 2026-11-21T10:00:00Z") from None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    # The first of an ID that is not before it, which is what a start and an end that is not included both ask for.
    return max(0, -(-since // timedelta(milliseconds=1)))  # no ID is of a time before 1970


def _option(parse: Callable[[str], Any], default: Any) -> Any:
    """A field of a dataclass; what it returns is no value that instances would share."""
    return field(default=default, metadata={"parse": parse})


def _spelt(name: str) -> str:
    """``max_bytes`` as users write it: ``maxBytes``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True)
class _Options:
    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Any:
        """Reads the options that Spark hands over.

        Raises:
            ArgumentError: an unknown option, with the one that may have been meant; a value that does not fit.
        """
        known = {_spelt(each.name).lower(): each for each in fields(cls)}
        if {key.lower() for key in given} >= _OF_TABLES:
            raise ArgumentError(
                "a table of the catalog is made with its columns, CREATE TABLE t (sensor STRING, value DOUBLE) USING "
                "diskstream, and has no options, as Spark keeps them from Python sources: each query gives its own, "
                "SELECT * FROM t WITH (path = '/data/store'). What keeps them is CREATE TEMPORARY VIEW v USING "
                "diskstream OPTIONS (path '/data/store')"
            )
        values: dict[str, Any] = {}
        for key, text in given.items():
            if key.lower() in _FOREIGN:
                continue
            each = known.get(key.lower())
            if each is None:
                near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
                hint = f"; did you mean {_spelt(known[near[0]].name)}?" if near else ""
                raise ArgumentError(f"the diskstream source has no option {key}{hint}")
            try:
                values[each.name] = each.metadata["parse"](text)
            except (ValueError, ArgumentError) as error:
                raise ArgumentError(f"option {_spelt(each.name)}={text!r}: it takes {error}") from None
        return cls(**values)


_OF_QUERIES = (
    "max_entries_per_trigger",
    "max_bytes_per_trigger",
    "min_entries_per_trigger",
    "max_trigger_delay",
    "group",
)
# How entries are shared out and shown, of which tables of groups have nothing.
_OF_ENTRIES = (
    "min_partitions",
    "max_bytes_per_partition",
    "max_entries_per_partition",
    "batch_rows",
    "include_tail",
    "include_metadata",
    "fail_on_data_loss",
    "layout",
    "duplicate_fields",
    "mode",
    "large_ids",
    "corruption_path",
)


@dataclass(frozen=True)
class ReadOptions(_Options):
    """What a read may be told: see docs/spark.md for each."""

    path: str = _option(local_path, "")
    streams: tuple[bytes, ...] = _option(_names, ())
    stream_pattern: str = _option(_text, "")
    table: str = _option(_choice(*TABLES), "entries")
    starting_ids: Bounds | None = _option(_bounds, None)  # noqa: RUF009  # see `_option`
    ending_ids: Bounds | None = _option(_ends, None)  # noqa: RUF009  # see `_option`
    starting_timestamp: int | None = _option(_time_ms, None)
    ending_timestamp: int | None = _option(_time_ms, None)
    min_partitions: int | None = _option(_count, None)
    max_bytes_per_partition: int = _option(_size, 64 << 20)
    max_entries_per_partition: int = _option(_count, 2_000_000)
    batch_rows: int = _option(_count, 40_000)
    include_tail: bool = _option(_flag, True)
    include_metadata: bool = _option(_flag, False)
    fail_on_data_loss: bool = _option(_flag, True)
    layout: str = _option(_choice("fields", "map", "typed", "raw"), "")
    duplicate_fields: str = _option(_choice("first", "last", "fail"), "last")
    mode: str = _option(_choice("PERMISSIVE", "FAILFAST"), "PERMISSIVE")
    large_ids: str = _option(_choice("fail", "wrap"), "fail")
    on_corruption: str = _option(_choice("fail", "skip"), "fail")
    corruption_path: str = _option(_report, "")
    lease: bool = _option(_flag, True)
    lease_ttl: float = _option(parse_duration_s, 3600.0)
    max_entries_per_trigger: int | None = _option(_count, None)
    max_bytes_per_trigger: int | None = _option(_size, None)
    min_entries_per_trigger: int | None = _option(_count, None)
    max_trigger_delay: float = _option(parse_duration_s, 900.0)
    group: str = _option(_text, "")

    def check(self) -> "ReadOptions":
        """What the options say together.

        Raises:
            ArgumentError: there is no path, or two of them contradict each other.
        """
        if not self.path:
            raise ArgumentError(
                "the diskstream source needs a path: .option('path', '/data/store') or .load(path); a table of the "
                "catalog has none, as Spark keeps its options from Python sources: SELECT * FROM t WITH (path = "
                "'/data/store'), or make a temporary view"
            )
        for one, other in (
            ("starting_ids", "starting_timestamp"),
            ("ending_ids", "ending_timestamp"),
            ("streams", "stream_pattern"),
        ):
            if all(getattr(self, name) not in (None, (), "") for name in (one, other)):
                raise ArgumentError(f"options {_spelt(one)} and {_spelt(other)} exclude each other")
        if self.table != "entries":
            self._check_table()
        return self

    def _check_table(self) -> None:
        times = ("starting_timestamp", "ending_timestamp")
        for name in ("starting_ids", "ending_ids", *times):
            if getattr(self, name) is not None and not (self.table == "audit" and name in times):
                raise ArgumentError(f"table={self.table} is read as a whole: it has no {_spelt(name)}")
        for name in self._given(_OF_ENTRIES):
            raise ArgumentError(
                f"option {name} is for entries: table={self.table} has columns of its own, a partition for each "
                "stream, and rows as they are now; leave it out"
            )

    def _given(self, names: tuple[str, ...]) -> list[str]:
        """Those of the options that are not as they are by default."""
        return [
            _spelt(each.name)
            for each in fields(self)
            if each.name in names and getattr(self, each.name) != each.default
        ]

    def check_batch(self) -> "ReadOptions":
        """The same, of a batch read.

        Raises:
            ArgumentError: an option that it would not heed.
        """
        for name in self._given(_OF_QUERIES):
            raise ArgumentError(
                f"option {name} is for streaming reads: a batch reads once, all that there is, and no group follows it"
            )
        return self


@dataclass(frozen=True)
class WriteOptions(_Options):
    """What a write may be told: see docs/spark.md for each."""

    path: str = _option(local_path, "")
    stream: str = _option(_text, "")
    ids: str = _option(_choice("auto", "columns"), "auto")
    txn_id: str = _option(_text, "")
    writer: str = _option(_text, "")
    batch_rows: int = _option(_count, 8_192)
    large_ids: str = _option(_choice("fail", "wrap"), "fail")

    def check(self) -> "WriteOptions":
        """What the options say together.

        Raises:
            ArgumentError: there is no path.
        """
        if not self.path:
            raise ArgumentError(
                "the diskstream source needs a path: .option('path', '/data/store') or .save(path); a table of the "
                "catalog has none, as Spark keeps its options from Python sources: INSERT INTO t WITH (path = "
                "'/data/store', stream = 'copies') SELECT ..."
            )
        return self
