"""A range of a stream by columns: for numpy, and for Arrow."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from diskstream import columnar
from diskstream._native import ColumnBatch
from diskstream.engine import reader
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError
from diskstream.ids import IDLike, parse_end, parse_start

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columned"]


class Columned:
    """What `Stream` has for readers of columns; a stream says how it is followed."""

    def _following(self, read: Callable[[StreamLog], Iterator[ColumnBatch]]) -> Iterator[ColumnBatch]:
        raise NotImplementedError

    def columns(
        self,
        start: IDLike = "-",
        end: IDLike = "+",
        *,
        fields: Sequence[str | bytes] | None = None,
        duplicates: str = "fail",
    ) -> columnar.Columns:
        """A range by columns: numpy arrays of the IDs, and for each field its values. Arguments as for `to_arrow`."""
        wanted = columnar.field_names(fields)
        return columnar.as_columns(self._batches(start, end, wanted, duplicates), wanted)

    def to_arrow(
        self,
        start: IDLike = "-",
        end: IDLike = "+",
        *,
        fields: Sequence[str | bytes] | None = None,
        duplicates: str = "fail",
    ) -> "pa.Table":
        """A range as an Arrow table: ``id_ms``, ``id_seq``, then each field as binary.

        Args:
            start, end: as `range`.
            fields: the fields wanted, in this order; None takes all, in no particular order.
            duplicates: which value counts where an entry holds a name twice: ``first``, ``last``, or ``fail``.

        Raises:
            ArgumentError: an entry holds a name twice, `duplicates` being ``fail``; over 10,000 fields, and none named;
                two fields would be one column: bytes that are no UTF-8 are written as escapes, like ``\\xff``.
            MissingPackageError: pyarrow is not installed.
        """
        wanted = columnar.field_names(fields)
        return columnar.as_table(self._batches(start, end, wanted, duplicates), wanted)

    def _batches(
        self, start: IDLike, end: IDLike, wanted: list[bytes] | None, duplicates: str
    ) -> Iterator[ColumnBatch]:
        if duplicates not in ("first", "last", "fail"):
            raise ArgumentError("duplicates must be 'first', 'last' or 'fail'")
        low, high = parse_start(start), parse_end(end)
        return self._following(lambda log: reader.columns(log, low, high, wanted, duplicates))
