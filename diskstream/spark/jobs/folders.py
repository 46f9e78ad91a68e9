"""Partition folders: ``stream=<name>/date=YYYY-MM-DD[/hour=HH]``, by the UTC time of the ID's milliseconds.

The name is what the column `stream` of the data source shows, with what file systems and Spark do not take as ``%XX``:
control characters, spaces, and ``"#%'*/:=?[\\]^{}``. A name of more than 200 bytes, or one that ends as these do, is
cut, and ends with ``~`` and its SHA-256; files and manifest hold it whole. IDs past the year 9999 have the folder that
Hive reads as null.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from diskstream.spark.names import as_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DAY_MS", "cut", "folder_of"]

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_DAY: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH).days
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL: Final = re.compile("[\x00-\x20\x7f\"#%'*/:=?\\[\\\\\\]^{}]")
_MOST_BYTES: Final = 200  # a folder's name has 255 at most; this leaves room for "stream=" and for two more hex digits
_HASH_HEX: Final = 64
_CUT: Final = re.compile("~[0-9a-f]{64}$")


def folder_of(stream: bytes, ms: int, *, hourly: bool) -> str:
    """The folder for an entry of a stream, by its ID's milliseconds."""
    days, rest = divmod(ms, DAY_MS)
    known = days <= _LAST_DAY
    date = (_EPOCH + timedelta(days=days)).date().isoformat() if known else _NULL
    hour = f"/hour={rest // _HOUR_MS:02d}" if hourly and known else f"/hour={_NULL}" if hourly else ""
    return f"stream={_escaped(stream)}/date={date}{hour}"


def _escaped(stream: bytes) -> str:
    text = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", as_text(stream))
    data = text.encode()
    if len(data) <= _MOST_BYTES and not _CUT.search(text):  # what ends so would have the folder of a longer name
        return text
    kept = data[: _MOST_BYTES - _HASH_HEX - 1].decode(errors="ignore")
    return f"{re.sub('%[0-9A-F]?$', '', kept)}~{hashlib.sha256(stream).hexdigest()}"


def cut(batch: "pa.RecordBatch", *, hourly: bool) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """A batch in order of IDs, cut where another day (or hour) begins; each part with its first row's milliseconds."""
    times = np.asarray(batch.column("id_ms")).view(np.uint64)
    units = times // np.uint64(_HOUR_MS if hourly else DAY_MS)
    starts = [0] if units[0] == units[-1] else [0, *(np.flatnonzero(np.diff(units)) + 1).tolist()]
    for begin, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield int(times[begin]), batch.slice(begin, end - begin)
