"""What a stream does for writers that must add everything exactly once: batches, and commits of their parts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from diskstream import arrow_rows
from diskstream._native import EntryID, PackedRows
from diskstream.commits import COMPLETE, Commit, check_writer, record_of
from diskstream.engine.log import StreamLog
from diskstream.errors import LimitError
from diskstream.membership import looked, now_ms

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Committing"]

_T = TypeVar("_T")


class Committing:
    """The part of `Stream` that deals with batches of Arrow and with commits."""

    if TYPE_CHECKING:

        def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T: ...
        def _write(self, action: Callable[[StreamLog], _T], *, create: bool = True) -> _T | None: ...

    def committed(self, writer: bytes) -> tuple[int, int] | None:
        """Version and part that a writer committed last; None where nothing is remembered of it.

        Raises:
            ArgumentError: no name of a writer.
        """
        name = check_writer(writer)
        return self._use(lambda log: looked(log, lambda log: log.native.committed(name)), None)

    def note_commit(self, commit: Commit, *, durable: bool = False) -> bool:
        """Remembers a commit without any entry: that a version is complete, say. Makes the stream where there is none.

        Args:
            commit: what is remembered.
            durable: return when it is on disk, with all that was added before, whatever the store's policy.

        Returns:
            Whether it was new; False where this part, or one behind it, was committed before.

        Raises:
            StorageError: the disk said no.
        """
        record = record_of(commit)

        def note(log: StreamLog) -> bool:
            with log.locked():
                log.prepare()
                last = log.native.committed(commit.writer)
                is_new = last is None or last < (commit.version, commit.part)
                if is_new:
                    now = now_ms(log)
                    log.retry(lambda: log.native.change([("commit", *record, now)], now), held=True)
            if durable or log.options.is_always:
                log.flush()
            return is_new

        return bool(self._write(note))

    def add_arrow(
        self, batch: "pa.RecordBatch", *, ids: str = "auto", commit: Commit | None = None, durable: bool = False
    ) -> tuple[EntryID, EntryID] | None:
        """Adds the rows of an Arrow record batch, as one frame: all of them or, after a crash, none.

        The fields of a row are those of its column ``fields``, a list of structs of ``name`` and ``value``; without
        such a column, each column is a field of its name. Numbers become decimal text, booleans ``true`` and ``false``,
        dates and times ISO 8601 (those with a time zone in UTC), of the years 0000 to 9999. A null leaves its field
        out. The columns ``id``, ``id_ms``, ``id_seq``, ``stream`` and ``ts`` are no fields; fields of such names, or of
        the name ``fields``, are columns named ``field:id`` and so on. Where columns are fields, ``id``, ``stream`` and
        ``ts`` are left out as reads and exports give them alone, so that no data goes without a word: ``stream`` in
        front of the ID, ``id`` and ``ts`` as the ID and its time once more; or beside ``field:id`` and so on.

        A batch that does not fit into one frame of 64 MiB becomes several, cut alike whenever the rows are alike; each
        is there whole or not at all. The first is part `commit.part`, the next one more, and so on: at most 4096 of
        them, so a writer that gives its batches parts 4096 apart is always right.

        Args:
            batch: the rows, in order.
            ids: ``auto``, or ``columns`` for the IDs in ``id_ms`` and ``id_seq`` (of 64 bits, unsigned, or signed with
                the same bits) or in ``id`` (text).
            commit: the part that the batch is; one that was committed before is not added again.
            durable: return when the entries are on disk, whatever the store's policy.

        Returns:
            The IDs of the first and the last row added; None where there was none, or all were committed before.

        Raises:
            IDOrderError, ZeroIDError, InvalidIDError: the IDs cannot be used.
            ArgumentError: a row without a field, a column that cannot be a field, or that may be meant for one and
                would be left out, a time that cannot be read back. Nothing is added then.
            LimitError: an entry is too large.
            StorageError: the disk said no: frames before the one that failed stay.
            MissingPackageError: pyarrow is not installed.
        """
        return self._add_packed(arrow_rows.pack(batch, ids), commit=commit, durable=durable)

    def _add_packed(
        self, frames: Sequence[PackedRows], *, commit: Commit | None, durable: bool = False
    ) -> tuple[EntryID, EntryID] | None:
        """Adds what `arrow_rows.pack` made of a batch: `add_arrow` for who packs ahead."""
        if not frames:
            return None
        if len(frames) > arrow_rows.MAX_FRAMES:
            raise LimitError("the frames of a batch", arrow_rows.MAX_FRAMES, len(frames))
        if commit is not None:
            record_of(commit)
        if commit is not None and commit.part + len(frames) > COMPLETE:
            raise LimitError("the part of the last frame", COMPLETE - 1, commit.part + len(frames) - 1)
        parts = [None if commit is None else commit.after(number).record for number in range(len(frames))]

        def append(log: StreamLog) -> tuple[EntryID, EntryID] | None:
            if len(frames) == 1:
                return log.native.add_packed(frames[0], bool(durable), False, log.now(), parts[0])
            with log.locked():  # nobody's entries come in between
                log.prepare()
                added = [
                    log.native.add_packed(rows, False, True, log.now(), part)
                    for rows, part in zip(frames, parts, strict=True)
                ]
            if durable or log.options.is_always:
                log.flush()
            made = [both for both in added if both is not None]
            return (made[0][0], made[-1][1]) if made else None

        return self._write(append)
