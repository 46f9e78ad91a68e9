"""What archives and replays remember of how far they have come, looked at by a verification."""

from collections.abc import Iterator
from pathlib import Path

from diskstream.checked_json import checked
from diskstream.engine.files import read_small, wrapped
from diskstream.engine.looks import children, is_folder
from diskstream.engine.verify import Problem
from diskstream.errors import StorageError

__all__ = ["work_faults"]

_MAX_BYTES = 1 << 20
_ARCHIVE = "the streams are whole, but the archive does not go on: restore the file, or archive to a new directory"
_REPLAY = "the streams are whole, but the replay does not go on: give it another --name"


def work_faults(store: Path) -> Iterator[Problem]:
    """Files of a store's directory that say how far work has come, and are not what was written.

    One that is gone is no fault: nobody can tell that there ever was one.
    """
    for path in _files(store / "archives"):
        if path.suffix == ".json":
            yield from _fault(path, _ARCHIVE)
    for folder in _files(store / "replays"):
        for path in _files(folder):
            if path.suffix == ".json":
                yield from _fault(path, _REPLAY)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(children(folder)) if is_folder(folder) else []
    except OSError:
        return []  # others remove it just now, or it is a fault of its own


def _fault(path: Path, meaning: str) -> Iterator[Problem]:
    try:
        with wrapped(path, "read"):
            checked(read_small(path, _MAX_BYTES))
    except FileNotFoundError:
        return  # replaced or removed meanwhile
    except (StorageError, ValueError, RecursionError) as error:
        yield Problem(b"", path, 0, f"it cannot be read ({error})", meaning=meaning)
