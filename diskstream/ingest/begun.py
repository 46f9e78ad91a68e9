"""Which imports are begun and not over: where others bring the same files once more, their rows would be there twice.

So it is where a pattern means one file more by the time that an import is to be gone on with: that is another import.
Who gives the same files other options means to begin anew.

::

    imports/<sha256 of the stream's name and the key>.json
        {"stream", "key", "files", "whole", "check"}: of those of this stream, and which others; goes when it is over
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import diskstream
from diskstream.checked_json import checked, with_check
from diskstream.errors import ChangedError, DiskstreamError
from diskstream.ingest.holding import place_of
from diskstream.ingest.resuming import rows_left_by
from diskstream.ingest.sources import shown
from diskstream.plurals import number_of
from diskstream.system_calls import give, open_regular, read_small, wrapped
from diskstream.system_calls import named as list_named

__all__ = ["Beginning", "begun", "note_over"]

_MAX_BYTES = 256 << 20  # some million names of files


class Beginning(NamedTuple):
    """An import into one stream.

    Attributes:
        stream: what is imported to.
        key: names the import; empty where nobody can go on with it, as with standard input.
        files: paths of what is imported, resolved.
        whole: tells them, and what is imported to other streams beside, from other files.
    """

    stream: diskstream.Stream
    key: str
    files: Sequence[str]
    whole: str


@contextmanager
def begun(store: diskstream.Store, imports: Sequence[Beginning], *, again: bool) -> Iterator[None]:
    """Makes sure that no other import has left rows of the same files, and writes down what this one is.

    Where it ends in an error before any row is in a stream, nothing stays written down of that one.

    Args:
        store: the store.
        imports: those that begin, each into a stream of its own.
        again: import all the same; what was interrupted is not gone on with any more.

    Raises:
        ChangedError: one has.
        StorageError: the disk said no.
    """
    try:
        _begin(store, imports, again=again)
        yield
    except BaseException:
        with suppress(DiskstreamError):  # what ends it is told
            note_over(store, [each for each in imports if not rows_left_by(each.stream, each.key)])
        raise


def _begin(store: diskstream.Store, imports: Sequence[Beginning], *, again: bool) -> None:
    named = {each.stream.name.decode("latin-1"): each for each in imports if each.key}
    if not named:
        return
    for path in list_named(store.path / "imports", ".json"):
        facts = _read(path)
        ours = named.get(facts["stream"]) if facts else None
        if ours is not None and facts["whole"] != ours.whole:
            _check_other(path, facts, ours, again=again)
    for name, each in named.items():
        facts = {"stream": name, "key": each.key, "files": list(each.files), "whole": each.whole}
        _write(_path(store, each), facts)


def _check_other(path: Path, facts: dict[str, Any], ours: Beginning, *, again: bool) -> None:
    theirs = facts["files"]
    both = sorted(set(theirs).intersection(ours.files))
    rows = rows_left_by(ours.stream, facts["key"]) if both else 0
    if rows and again:
        with wrapped(path, "remove"):
            path.unlink(missing_ok=True)
    elif rows:
        what = os.fsencode(both[0]).decode("utf-8", "backslashreplace")
        if len(theirs) > 1:
            what += f" and {number_of(len(theirs) - 1, 'other file')}"
        raise ChangedError(
            shown(ours.stream.name),
            f"an import of {what} was interrupted, or is under way, and has added {number_of(rows, 'row')}; "
            "this one is not of the same files, and would add these once more",
            "to go on with it name the files that it had, all of them and no other; --again imports all of these, "
            "beside what is there",
        )


def note_over(store: diskstream.Store, imports: Sequence[Beginning]) -> None:
    """Removes what `begun` wrote down.

    Raises:
        StorageError: the disk said no.
    """
    for each in imports:
        if each.key:
            path = _path(store, each)
            with wrapped(path, "remove"):
                path.unlink(missing_ok=True)


def _path(store: diskstream.Store, each: Beginning) -> Path:
    return place_of(store, each.stream.name, each.key, ".json")


def _write(path: Path, facts: dict[str, Any]) -> None:
    """In one step: who goes on with an import writes it again, and killed meanwhile must leave what there was."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    with wrapped(path, "write"):
        try:
            with os.fdopen(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                give(file.fileno(), temporary)
                file.write(json.dumps(with_check(facts)).encode("ascii"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    """What stands there; nothing where it went, or is not what was written: then it keeps nobody from anything."""
    try:
        facts = checked(read_small(path, _MAX_BYTES))
        words = [facts["stream"], facts["key"], facts["whole"], *facts["files"]]
        facts["key"].encode()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return facts if all(isinstance(each, str) for each in words) else {}
