"""The places where Python reads bytes that somebody else may have written, each with what its own writers make.

An edge may refuse whatever it is given, in the words of our tree of errors (or as its docstring says), and nothing else
may come out of it. What a checksum guards is signed anew: it says that nothing was torn, not who wrote it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diskstream.errors import DiskstreamError

__all__ = ["Edge", "tried"]


@dataclass(frozen=True)
class Edge:
    """A parser of bytes.

    Attributes:
        seeds: what its own writers make; given a folder to make it in.
        read: parses bytes; the folder is there for those that only read files.
        errors: what may come out.
        signed: gives changed bytes the checksum that their reader wants.
    """

    name: str
    seeds: Callable[[Path], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[Exception], ...] = (DiskstreamError,)
    signed: Callable[[bytes], bytes] | None = None


def tried(edge: Edge, data: bytes, folder: Path) -> str:
    """Gives bytes to an edge, and what it makes of them to whoever asks for it: "read" or "refused".

    Raises:
        AssertionError: something came out that may not; names the bytes.
    """
    outcome = "read"
    for given in (data,) if edge.signed is None else (data, edge.signed(data)):
        try:
            found = edge.read(given, folder)
            if isinstance(found, Iterator):
                for _ in found:
                    pass
        except edge.errors:
            outcome = "refused"
        except Exception as error:
            shown = given if len(given) < 2000 else given[:2000] + b"..."
            raise AssertionError(
                f"{edge.name}: {type(error).__name__}: {error}; bytes.fromhex({shown.hex()!r})"
            ) from error
    return outcome
