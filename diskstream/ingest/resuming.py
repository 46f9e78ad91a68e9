"""Going on with an import that was interrupted: the stream remembers which batches it has of which import.

A batch is one frame, and its commit record in it, so that there are both or neither. The writer is named by what is
imported and how; its version counts imports of the same. Part 0 says that one has begun, and behind which ID of the
stream: two further writers have the two halves of that as their versions. The greatest part says that all is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import diskstream
from diskstream.commits import COMPLETE, Commit

__all__ = ["Resumption", "key_of"]


def key_of(facts: Mapping[str, object]) -> str:
    """What names an import: the same files, as they are, read in the same way."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")).hexdigest()


class Resumption:
    """How far an import into one stream has come.

    Attributes:
        behind: the stream's last ID when the import began.
        held: the batches that an earlier run has added.
    """

    def __init__(self, stream: diskstream.Stream, key: str, *, again: bool = False) -> None:
        """Looks how far it has come.

        Args:
            stream: what is imported to.
            key: see `key_of`; empty where nobody can go on with it, as with standard input.
            again: begin anew, whatever an earlier run left.
        """
        self._stream, self._key = stream, key
        self._version = self.held = self._next = 0
        self._begun = False
        self.behind = stream.info().last_generated_id if stream.exists() else diskstream.EntryID(0, 0)
        before = stream.committed(self._writer("")) if key else None
        if before is None:
            return
        version, part = before
        self._version = version
        halves = [stream.committed(self._writer(name)) for name in ("ms", "seq")]
        if part == COMPLETE or again or None in halves:
            self._version += 1
            return
        ms, seq = (half[0] for half in halves if half is not None)
        self.behind, self.held, self._begun = diskstream.EntryID(ms, seq), part, True

    def _writer(self, name: str) -> bytes:
        return (f"import {self._key} {self._version} {name}" if name else f"import {self._key}").encode()

    def next(self, frames: int = 1) -> Commit | None:
        """The commit of the next batch, which may become so many frames; None where none is kept."""
        if not self._key:
            return None
        part = self._next + 1
        self._next += frames
        if not self._begun:
            self._stream.note_commit(Commit(self._writer("ms"), self.behind.ms))
            self._stream.note_commit(Commit(self._writer("seq"), self.behind.seq))
            self._stream.note_commit(Commit(self._writer(""), self._version))
            self._begun = True
        return Commit(self._writer(""), self._version, part)

    def is_held(self, commit: Commit | None, frames: int = 1) -> bool:
        """Whether an earlier run is known to have added all of a batch."""
        return commit is not None and commit.part + frames - 1 <= self.held

    def finish(self) -> None:
        """Everything is there: the next import of the same is another one."""
        if self._begun:
            self._stream.note_commit(Commit.complete(self._writer(""), self._version))
