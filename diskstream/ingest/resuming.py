"""Going on with an import that was interrupted: the stream remembers how many rows it has of which import.

A batch is one frame, and its commit record in it, so that there are both or neither. The writer is named by which files
are imported and how; what is in them may change, and is told by a digest of the rows that are there. The record says,
from the highest bit to the lowest:

    version    which import of the same: 20    whether it is over: 1    rows up to its end: 37    digest: 6
    part       digest: 20    frame of the batch: 12

So it grows from batch to batch, whatever the digest is. Behind which ID of the stream an import began a second writer
says: its version and part are that ID, and grow as it does. So of the 1024 writers that a stream remembers an import
takes two.

Two digests of 26 bits are the same by chance once in 64 million times. That is only asked where somebody has changed
rows that are there, between an import that was interrupted and the one that would go on.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self
from zlib import crc32

import diskstream
from diskstream.commits import COMPLETE, Commit
from diskstream.errors import LimitError
from diskstream.ingest.errors import InputChangedError
from diskstream.ingest.rows import Pairs
from diskstream.ingest.sources import shown
from diskstream.plurals import number_of

__all__ = ["MAX_IMPORTS", "MAX_ROWS", "Resumption", "RowsDigest", "key_of", "rows_left_by", "version_of"]

_ROW_BITS: Final = 37
_FRAME_BITS: Final = 12  # `arrow_rows.MAX_FRAMES`
_LOW: Final = (1 << 20) - 1  # a digest is less: so the last frame of a batch has a part, too

MAX_IMPORTS: Final = 1 << 20
"""So many imports of the same into one stream are told apart: later ones begin anew where they are interrupted."""

MAX_ROWS: Final = (1 << _ROW_BITS) - 1
"""Of one import into one stream."""


def key_of(facts: Mapping[str, object]) -> str:
    """What names an import: the same files, read in the same way."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")).hexdigest()


def version_of(imports: Iterable[tuple[diskstream.Stream, str]]) -> int | None:
    """Which import of the same this is, where files go to several streams: one that is complete in some is not over.

    Args:
        imports: the streams, and the key of what is imported to each.

    Returns:
        The version to go on with, or of a new one; None where nothing of it can be gone on with, or was begun.
    """
    found = [_Reached.of(stream, key) for stream, key in imports]
    begun = [each for each in found if each is not None]
    if not begun:
        return None
    newest = max(each.version for each in begun)
    is_over = len(begun) == len(found) and all(each.version == newest and each.over for each in begun)
    return newest + is_over


def rows_left_by(stream: diskstream.Stream, key: str) -> int:
    """How many rows an import has added that is not over; none where it is, or the stream knows nothing of it."""
    found = _Reached.of(stream, key)
    return 0 if found is None or found.over else found.rows


class RowsDigest:
    """Of rows as they are appended. It is that of the same rows in other batches, too."""

    def __init__(self) -> None:
        self._bytes = self._sizes = self._fields = self._ids = 0

    def add(self, ids: Sequence[diskstream.EntryID | None], batch: list[Pairs]) -> int:
        """Takes the rows that follow; the digest of all up to here."""
        parts = [part for pairs in batch for pair in pairs for part in pair]
        self._bytes = crc32(b"".join(parts), self._bytes)
        self._sizes = crc32(array("Q", map(len, parts)), self._sizes)
        self._fields = crc32(array("Q", map(len, batch)), self._fields)
        words = [word for entry_id in ids if entry_id is not None for word in (entry_id.ms, entry_id.seq)]
        self._ids = crc32(array("Q", words), self._ids)
        return crc32(array("Q", (self._bytes, self._sizes, self._fields, self._ids)))


class _Reached(NamedTuple):
    """How far an import has come, as its commit says it."""

    version: int
    over: bool = False
    rows: int = 0
    digest: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, stream: diskstream.Stream, key: str) -> Self | None:
        """As the stream remembers it."""
        found = stream.committed(_writer(key)) if key else None
        if found is None:
            return None
        version, part = found
        rows = version >> 6 & MAX_ROWS
        digest = version & 63, part >> _FRAME_BITS
        return cls(version >> 6 + _ROW_BITS + 1, bool(version >> 6 + _ROW_BITS & 1), rows, digest)

    def commit(self, key: str) -> Commit:
        high, low = self.digest
        version = ((self.version << 1 | self.over) << _ROW_BITS | self.rows) << 6 | high
        return Commit(_writer(key), version, low << _FRAME_BITS)


def _writer(key: str) -> bytes:
    return f"import {key}".encode()


class Resumption:
    """How far an import into one stream has come.

    Attributes:
        behind: the stream's last ID when the import began.
        held: the rows that an earlier run has added; all frames of the last batch of them, or some.
        rows: those up to the end of the batch that was next.
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
        self.held = self.rows = 0
        self._begun = False
        self.behind = stream.summary().last_generated_id if stream.exists() else diskstream.EntryID(0, 0)
        self._start = f"import {key} start".encode()
        before = _Reached.of(stream, self._key)
        self._before = self._now = _Reached(version or 0)
        if before is not None:
            self._follow(before, again=again, version=version)
        # Only now: what is gone on with began behind another ID than the last one.
        if self._now.version >= MAX_IMPORTS or self.behind.seq >= COMPLETE:
            self._key = ""  # no commit can say it

    def _follow(self, before: _Reached, *, again: bool, version: int | None) -> None:
        """Goes on with what was begun, or begins the one after it."""
        start = self._stream.committed(self._start)
        if version is not None and version > before.version:
            return
        if again or start is None or (before.over and version is None):
            self._now = _Reached(before.version + 1)
        else:
            self.behind, self.held, self._begun = diskstream.EntryID(*start), before.rows, True
            self._before = self._now = before

    def next(self, rows: int, digest: int) -> Commit | None:
        """The commit of the next batch; None where none is kept.

        Args:
            rows: how many it has: none of those that are `held` together with one that is not.
            digest: of 32 bits, of all rows up to its end.

        Raises:
            InputChangedError: what is held is something else.
            LimitError: too many rows.
        """
        begin, self.rows = self.rows, self.rows + rows
        if not self._key:
            return None
        if self.rows > MAX_ROWS:
            raise LimitError("the rows of an import", MAX_ROWS, self.rows)
        now = _Reached(self._now.version, over=False, rows=self.rows, digest=(digest >> 26, digest % _LOW))
        is_last_held = begin < self.held <= self.rows
        if (is_last_held and now != self._before._replace(over=False)) or (self._before.over and begin >= self.held):
            raise self._changed()
        self._now = now
        if not self._begun:
            self._stream.note_commit(Commit(self._start, self.behind.ms, self.behind.seq))
            self._stream.note_commit(_Reached(now.version).commit(self._key))
            self._begun = True
        return now.commit(self._key)

    def end(self) -> None:
        """There are no more rows.

        Raises:
            InputChangedError: more than these are held.
        """
        if self.rows < self.held:
            raise self._changed()

    def finish(self) -> None:
        """Everything is there: the next import of the same is another one."""
        if self._begun:
            self._stream.note_commit(self._now._replace(over=True).commit(self._key))

    def _changed(self) -> InputChangedError:
        others = number_of(self.held, "row is not the one", "rows are not those")
        return InputChangedError(
            f"the first {others} that an import which was interrupted has added to "
            f"{shown(self._stream.name)}: the files have changed since",
            hint="as they were, they are gone on with; --again imports all of them, beside what is there",
        )
