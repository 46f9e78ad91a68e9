"""What a file is by its first bytes, where it is no text that could be read as rows.

No row of such a file means anything, and that each of them is a bad one would show only where bad rows stop an import.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal, NamedTuple

__all__ = ["HEAD_BYTES", "Kind", "Nuls", "kind_of"]

HEAD_BYTES: Final = 512
"""Of a tar archive the mark stands at byte 257."""


# So many characters show UTF-16 without its mark: no row of CSV has a NUL in each of its first places.
_LOOKED_AT: Final = 4


class Kind(NamedTuple):
    """What a file is.

    Attributes:
        what: as a message says it.
        family: what can be done about it.
        how: the program that unpacks it, the format or the encoding that reads it.
    """

    what: str
    family: Literal["compressed", "table", "encoding", "binary"]
    how: str = ""


_PACKED: Final = (
    (rb"\x1f\x8b\x08[\x00-\x1f]", "gzip", "gzip -dc"),
    (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", "zstd", "zstd -dc"),
    (rb"\xfd7zXZ\x00", "xz", "xz -dc"),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", "bzip2 -dc"),
    (rb"\x5d\x00\x00[\x00-\xff][\x00-\x0f](\xff{8}|.{5}\x00{3})", "lzma", "xz --format=lzma -dc"),
    (rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18", "lz4", "lz4 -dc"),
    (rb"\x1f\x9d[\x89-\x90]", "compress", "gzip -dc"),
    (rb"LZIP[\x00\x01]", "lzip", "lzip -dc"),
    (rb"\x89LZO\x00\r\n\x1a\n", "lzop", "lzop -dc"),
    (rb"\xff\x06\x00\x00sNaPpY", "snappy", "snzip -dc"),
    (rb"PK(\x03\x04|\x05\x06)", "zip", "unzip -p"),
    (rb"7z\xbc\xaf\x27\x1c", "7z", "7z x -so"),
    (rb"Rar!\x1a\x07", "rar", "unrar p -inul"),
)

_TABLES: Final = (
    (rb"PAR1\x15", "a Parquet file", "parquet"),
    (rb"ARROW1\x00\x00", "an Arrow file", "arrow"),
    # A message's length, of which eight is a divisor; what follows begins with an offset.
    (rb"\xff\xff\xff\xff[\x00-\xff]{2}[\x00-\x0f]\x00[\x00-\xff]\x00\x00\x00", "an Arrow stream", "arrow"),
)

_OTHERS: Final = (
    (rb".{257}ustar", "a tar archive"),
    (rb"Obj\x01", "an Avro file"),
    (rb"SQLite format 3\x00", "an SQLite database"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
)

# The marks of UTF-32 begin as those of UTF-16 do.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16"),
)


Nuls = Literal["data", "values", "none"]
"""What a NUL in a text is: any byte of it, one of a value (of CSV as `diskstream export` writes it), or nothing."""


def kind_of(head: bytes, *, encoded: bool = False, nuls: Nuls = "none") -> Kind | None:
    """What a file that begins with `head` is; None where it may be text.

    Args:
        head: its first `HEAD_BYTES`, or all of it.
        encoded: an encoding is named that makes text of it.
        nuls: what they are in what it should be.
    """
    for pattern, name, program in _PACKED:
        if re.match(pattern, head, re.DOTALL):
            return Kind(name, "compressed", program)
    for pattern, what, table in _TABLES:
        if re.match(pattern, head, re.DOTALL):
            return Kind(what, "table", table)
    for pattern, what in _OTHERS:
        if re.match(pattern, head, re.DOTALL):
            return Kind(what, "binary")
    if encoded:
        return None
    for mark, what, encoding in _MARKS:
        if head.startswith(mark):
            return Kind(what, "encoding", encoding)
    return None if nuls == "data" or b"\x00" not in head else _by_its_nuls(head, nuls)


def _by_its_nuls(head: bytes, nuls: Nuls) -> Kind | None:
    even, odd = head[::2][:_LOOKED_AT], head[1::2][:_LOOKED_AT]
    for one, other, encoding in ((even, odd, "utf-16-le"), (odd, even, "utf-16-be")):
        if len(one) > 1 and b"\x00" not in one and not any(other):
            return Kind("UTF-16", "encoding", encoding)
    return None if nuls == "values" else Kind("bytes that are no text", "binary")
