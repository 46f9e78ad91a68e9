"""What there is to be kept of a store's directory beside streams: stores within it, writes of jobs that are under way,
and how far archives have come."""

import contextlib
import errno
import json
import re
from pathlib import Path
from typing import Final

from diskstream.backups.manifest import is_of_backup
from diskstream.errors import StorageError
from diskstream.plurals import number_of
from diskstream.store_files import Files, copy_file
from diskstream.system_calls import is_folder, is_there, read_small, wrapped

__all__ = ["copy_jobs", "is_of_jobs", "stores_in"]

# A server keeps further databases, and what it knows of keys, in stores of their own: docs/format/keys.md.
_WITHIN: Final = re.compile(r"keys|db[1-9]\d*")
# Files of a job that list no others. The rest, NNNN.json, list staged files.
_SMALL: Final = frozenset({"done.json", "plan.json", "replay.json", "complete"})
_MAX_MANIFEST_BYTES: Final = 256 << 20
_OF_JOBS: Final = ("archives", "commits", "replays", "staging")


def stores_in(path: Path) -> list[str]:
    """The stores in a directory, as paths below it: itself, which is the empty one, and those of a server.

    What is known of keys comes first: a stream that expires after that moment and before its own is not kept without
    its time of expiry. One that has streams and has lost its store.json is there too, and cannot be opened.
    """
    within = [each.name for each in path.iterdir() if _WITHIN.fullmatch(each.name) and _is_store(each)]
    return sorted(["", *within], key=lambda name: (name != "keys", name))


def _is_store(path: Path) -> bool:
    """Whether it is one, or was one: before there is a store.json no stream is made."""
    if is_there(path / "store.json"):
        return True
    with wrapped(path, "look at"):
        return is_folder(path / "streams") and any((path / "streams").iterdir())


def is_of_jobs(path: str) -> bool:
    """Whether a path below a store is of what jobs have decided or completed: streams are whole without it."""
    return path.split("/", maxsplit=1)[0] in _OF_JOBS


def copy_jobs(store: Path, target: Path, files: Files) -> None:
    """Copies what jobs have decided and not carried out yet, what they have completed, and the checkpoints of archives.

    All is durable but for the names. What readers of a backup do not know stays behind: a folder that somebody has put
    beside those of jobs, say.

    It comes before the streams: what is carried out meanwhile is then in these, and carrying it out again adds nothing,
    since streams remember what was committed to them. What counts as completed is in the streams for certain, and so is
    what a checkpoint says was copied.
    """
    archives = store / "archives"
    for path in sorted(archives.iterdir()) if is_folder(archives) else []:
        if is_of_backup(f"archives/{path.name}"):
            _refuse_giant(path)
            _copy(path, target / "archives", files)
    for area in ("commits", "replays"):
        for folder in sorted((store / area).iterdir()) if is_folder(store / area) else []:
            for path in sorted(folder.iterdir()) if is_folder(folder) else []:
                if not is_of_backup(f"{area}/{folder.name}/{path.name}"):
                    continue
                if path.name in _SMALL:
                    _refuse_giant(path)
                    _copy(path, target / area / folder.name, files)
                else:
                    _copy_decided(store, path, target, files)


def _refuse_giant(path: Path) -> None:
    """What somebody made of holes would fill the disk of the backup."""
    with wrapped(path, "look at"), contextlib.suppress(FileNotFoundError):
        size = path.lstat().st_size
        if size > _MAX_MANIFEST_BYTES:
            why = f"it has {number_of(size, 'byte')}, and not {_MAX_MANIFEST_BYTES:,} at most"
            raise StorageError(str(path), "copy", errno.EFBIG, why)


def _copy(source: Path, folder: Path, files: Files) -> None:
    missing = [each for each in (folder, *folder.parents) if not is_there(each)]
    for each in reversed(missing):
        files.mkdir(each)
    with contextlib.suppress(FileNotFoundError):  # completed meanwhile
        copy_file(source, folder / source.name, files, lambda _: None)


def _copy_decided(store: Path, manifest: Path, target: Path, files: Files) -> None:
    """Copies a manifest and what it lists; where a file is gone, it has been carried out meanwhile."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        with wrapped(manifest, "read"):
            text = read_small(manifest, _MAX_MANIFEST_BYTES)
        listed = [store / file["path"] for file in json.loads(text)["files"]]
        staging = store / "staging"
        for path in listed:
            if staging not in path.parents or not is_of_backup(path.relative_to(store).as_posix()):
                continue
            folder = target / path.parent.relative_to(store)
            if is_there(folder / path.name):
                continue
            _copy(path, folder, files)
            if not is_there(folder / path.name):
                return
        _copy(manifest, target / "commits" / manifest.parent.name, files)
