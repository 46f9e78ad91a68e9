"""What a repair could not keep, in words for people and as ranges of IDs."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Loss"]


@dataclass
class Loss:
    """Something that was there and cannot be read.

    Attributes:
        path: the file in which it stood.
        offset, size_bytes: where in it, and how much of it.
        what: what it was, and what follows from that.
        first, last: the IDs between which entries are gone, both included, as text; both empty where no entries are,
            `last` empty where nothing says where it ends.
        entries: how many of these are gone at most; None where nobody can tell.
    """

    path: Path
    offset: int
    size_bytes: int
    what: str
    first: str = ""
    last: str = ""
    entries: int | None = None
