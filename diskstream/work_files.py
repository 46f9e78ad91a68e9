"""What archives, replays and writers remember of how far they have come, looked at by a verification."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from diskstream.checked_json import checked
from diskstream.engine.files import read_small, wrapped
from diskstream.engine.looks import children, is_folder, is_there
from diskstream.engine.verify import Problem
from diskstream.errors import StorageError

__all__ = ["work_faults"]

_MAX_BYTES = 1 << 20
_MAX_LIST_BYTES = 256 << 20  # as who goes by it takes
_DONE = "done.json"
# Of a replay by Spark: what is left of one that is under way, with as many tasks as the archive has files; its end.
_PLAN, _COMPLETE = "plan.json", "complete"
_ARCHIVE = "the streams are whole, but the archive does not go on: restore the file, or archive to a new directory"
_REPLAY = "the streams are whole, but the replay does not go on: give it another --name"
_WRITER = (
    "the streams are whole, but what this writer has decided and not appended yet is in none, nor comes what it writes "
    "next: restore the file"
)


def work_faults(store: Path) -> Iterator[Problem]:
    """Files of a store's directory that say how far work has come, and are not what was written.

    One that is gone is no fault: nobody can tell that there ever was one.
    """
    for path in _files(store / "archives"):
        if path.suffix == ".json":
            yield from _read(path, _ARCHIVE, _MAX_BYTES)[1]
    for folder in _files(store / "replays"):
        for path in _files(folder):
            if path.name == _PLAN:
                yield from _read(path, _REPLAY, _MAX_LIST_BYTES, _plan)[1]
            elif path.name == _COMPLETE:  # earlier versions noted nothing in it
                yield from _read(path, _REPLAY, _MAX_BYTES, lambda text: checked(text) if text else {})[1]
            elif path.suffix == ".json":
                yield from _read(path, _REPLAY, _MAX_BYTES)[1]
    for folder in _files(store / "commits"):
        yield from _of_writer(store, folder)


def _plan(text: bytes) -> dict[str, Any]:
    """What a replay by Spark goes by; earlier versions kept the list of its tasks alone."""
    if not text.startswith(b"["):
        return checked(text)
    json.loads(text)
    return {}


def _of_writer(store: Path, folder: Path) -> Iterator[Problem]:
    """What a writer has completed, and the manifests of what it has decided: rows of which are in no stream yet."""
    done, faults = _read(folder / _DONE, _WRITER, _MAX_BYTES)
    yield from faults
    for path in _files(folder):
        if path.suffix != ".json" or path.name == _DONE:
            continue
        manifest, faults = _read(path, _WRITER, _MAX_LIST_BYTES)
        yield from faults
        try:
            # What is done needs none of its files; and whoever carries it out removes the manifest before them.
            is_done = int(manifest.get("version", -1)) <= int(done.get("version", -1))
            gone = [] if is_done else [each["path"] for each in manifest["files"] if not is_there(store / each["path"])]
            if gone and is_there(path):
                yield Problem(b"", path, 0, f"it lists {gone[0]}, which is gone", meaning=_WRITER)
        except (StorageError, ValueError, KeyError, TypeError, OverflowError) as error:  # earlier ones noted no check
            yield Problem(b"", path, 0, f"it cannot be read ({error})", meaning=_WRITER)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(children(folder)) if is_folder(folder) else []
    except OSError:
        return []  # others remove it just now, or it is a fault of its own


def _read(
    path: Path, meaning: str, limit: int, parse: Callable[[bytes], dict[str, Any]] = checked
) -> tuple[dict[str, Any], list[Problem]]:
    """What a file says, and what is wrong with it; nothing where it was replaced or removed meanwhile."""
    try:
        with wrapped(path, "read"):
            return parse(read_small(path, limit)), []
    except FileNotFoundError:
        return {}, []
    except (StorageError, ValueError, RecursionError) as error:
        return {}, [Problem(b"", path, 0, f"it cannot be read ({error})", meaning=meaning)]
