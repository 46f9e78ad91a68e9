"""The digests of rows as the native core takes them: a part of `_native.pyi` that has no room there."""

from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Offsets: TypeAlias = npt.NDArray[np.int32]
_Words: TypeAlias = npt.NDArray[np.uint64]
_Validity: TypeAlias = tuple[_Bytes, int] | None  # Bits, and which of them is the first row's; None: nothing is null

@final
class RowDigests:
    """Of some rows, a column at a time. Raises ArgumentError where a column has fewer values than there are IDs."""

    def __new__(cls, ms: _Words, seq: _Words) -> RowDigests: ...
    def numbers(self, name: bytes, validity: _Validity, bits: _Words) -> None: ...  # Takes in numbers, as their bits
    def decimals(self, name: bytes, validity: _Validity, words: _Words) -> None: ...  # The same, of two words each
    def texts(self, name: bytes, validity: _Validity, values: tuple[_Offsets, _Bytes]) -> None: ...  # Bytes or text
    def lists(
        self,
        name: bytes,
        validity: _Validity,
        bounds: _Offsets,
        names: tuple[_Offsets, _Bytes],
        values: tuple[_Offsets, _Bytes],
        places: _Offsets | None = None,
    ) -> None: ...  # Takes in lists of pairs; with places, each name is the one at its place of names
    def rows(self) -> tuple[_Words, _Words]: ...  # Of each row, in both lanes
    def total(self) -> tuple[int, int]: ...  # Of all rows together
