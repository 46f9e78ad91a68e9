"""Going on with an import that was interrupted: the stream remembers which batches it has of which import.

A batch is one frame, and its commit record in it, so that there are both or neither. The writer is named by what is
imported and how; its version counts imports of the same. Part 0 says that one has begun, the greatest that all is
there. Behind which ID of the stream it began a second writer says: its version and part are that ID, and grow as it
does. So of the 1024 writers that a stream remembers an import takes two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

import diskstream
from diskstream.commits import COMPLETE, Commit

__all__ = ["Resumption", "key_of", "version_of"]


def key_of(facts: Mapping[str, object]) -> str:
    """What names an import: the same files, as they are, read in the same way."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")).hexdigest()


def version_of(imports: Iterable[tuple[diskstream.Stream, str]]) -> int | None:
    """Which import of the same this is, where files go to several streams: one that is complete in some is not over.

    Args:
        imports: the streams, and the key of what is imported to each.

    Returns:
        The version to go on with, or of a new one; None where nothing of it can be gone on with, or was begun.
    """
    found = [stream.committed(f"import {key}".encode()) if key else None for stream, key in imports]
    begun = [each for each in found if each is not None]
    if not begun:
        return None
    newest = max(version for version, _ in begun)
    is_over = len(begun) == len(found) and all(each == (newest, COMPLETE) for each in begun)
    return newest + is_over


class Resumption:
    """How far an import into one stream has come.

    Attributes:
        behind: the stream's last ID when the import began.
        held: the batches that an earlier run has added.
    """

    def __init__(self, stream: diskstream.Stream, key: str, *, again: bool = False, version: int | None = None) -> None:
        """Looks how far it has come.

        Args:
            stream: what is imported to.
            key: see `key_of`; empty where nobody can go on with it, as with standard input.
            again: begin anew, whatever an earlier run left.
            version: which import of the same it is: see `version_of`; None goes by this stream alone.
        """
        self._stream, self._key = stream, key
        self._version = self.held = self._next = 0
        self._begun = False
        self.behind = stream.info().last_generated_id if stream.exists() else diskstream.EntryID(0, 0)
        if self.behind.seq >= COMPLETE:
            self._key = ""  # no part of a commit can say it
        self._writer, self._start = f"import {key}".encode(), f"import {key} start".encode()
        before = stream.committed(self._writer) if self._key else None
        if before is None:
            self._version = version or 0
            return
        self._version, part = before
        start = stream.committed(self._start)
        if version is not None and version > self._version:
            self._version = version
            return
        if again or start is None or (part == COMPLETE and version is None):
            self._version += 1
            return
        self.behind, self.held, self._begun = diskstream.EntryID(*start), part, True

    def next(self, frames: int = 1) -> Commit | None:
        """The commit of the next batch, which may become so many frames; None where none is kept."""
        if not self._key:
            return None
        part = self._next + 1
        self._next += frames
        if not self._begun:
            self._stream.note_commit(Commit(self._start, self.behind.ms, self.behind.seq))
            self._stream.note_commit(Commit(self._writer, self._version))
            self._begun = True
        return Commit(self._writer, self._version, part)

    def is_held(self, commit: Commit | None, frames: int = 1) -> bool:
        """Whether an earlier run is known to have added all of a batch."""
        return commit is not None and commit.part + frames - 1 <= self.held

    def finish(self) -> None:
        """Everything is there: the next import of the same is another one."""
        if self._begun:
            self._stream.note_commit(Commit.complete(self._writer, self._version))
