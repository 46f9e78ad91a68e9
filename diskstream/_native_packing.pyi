"""Columns into packed rows, as the native core shows it: a part of `_native.pyi` that has no room there."""

from collections.abc import Sequence
from typing import TypeAlias, final

from diskstream._native import Block

# Offsets, whether they are of 64 bits, data, validity bits or None, what the offsets count from, the first value's bit.
_Column: TypeAlias = tuple[bytes, bool, bytes, bytes | None, int, int]
# Milliseconds and sequences as little-endian words of 64 bits, or text.
_IDs: TypeAlias = tuple[bytes, bytes] | _Column

@final
class PackedRows:
    """The rows of one frame, ready to be appended."""

    @property
    def rows(self) -> int: ...  # Entries
    @property
    def size_bytes(self) -> int: ...  # Bytes as packed
    def block(self) -> Block: ...  # The rows as they are read once they are appended; they must have been given IDs
    def to_bytes(self) -> bytes: ...  # The rows as bytes that can wait on a disk, with a checksum
    @staticmethod
    def from_bytes(data: bytes) -> PackedRows: ...  # The rows of which `to_bytes` made these; CorruptionError of others

def pack_columns(
    columns: Sequence[tuple[bytes, _Column]], rows: int, ids: _IDs | None = None, limit: int = ...
) -> list[PackedRows]:
    """Packs columns, each a field of that name, into frames of at most `limit` bytes; nulls are left out."""

def pack_pairs(
    bounds: bytes, names: _Column, values: _Column, rows: int, ids: _IDs | None = None, limit: int = ...
) -> list[PackedRows]:
    """The same for lists of pairs: row `r` has those from `bounds[r]` to `bounds[r + 1]`, words of 32 bits."""
