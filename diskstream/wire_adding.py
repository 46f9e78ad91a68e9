"""What a stream does with entries packed while they were read: a pipeline of XADDs, a reply to XRANGE."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from diskstream._native import AddRun, EntriesReply, EntryID, PackedRows
from diskstream.engine.log import StreamLog

__all__ = ["EntriesReply", "PackedRows", "WireAdding"]

_T = TypeVar("_T")


class WireAdding:
    """The part of `Stream` that takes entries as they came over the wire."""

    if TYPE_CHECKING:

        def _write(self, action: Callable[[StreamLog], _T], *, create: bool = True) -> _T | None: ...

    def add_run(self, run: AddRun, *, durable: bool = False) -> bytes:
        """Adds the entries of a run of XADDs as one frame, as `add_many` does: all of them or, after a crash, none.

        The stream is this one, whatever key the run names. A run is never too large for a frame: commands that could
        fail by their size are none of a run.

        Args:
            run: what `RequestParser` of the native core made of commands.
            durable: return when the entries are on disk, whatever the store's policy.

        Returns:
            The replies to the commands: their IDs as bulk strings of RESP, one behind the other.

        Raises:
            IDExhaustedError: there is no ID left. Nothing is added.
            StorageError: the disk said no. `DiskFullError`: nothing was added; else reopen the store to know.
        """
        return self._append(run, [len(run)], durable)[0]

    def add_runs(self, runs: list[AddRun], *, durable: bool = False) -> list[bytes] | None:
        """The same for runs of several clients, as one frame together: all of them or none.

        Returns:
            The replies to each run; None where they do not fit into one frame, and nothing was added.

        Raises:
            As `add_run`.
        """
        joined = AddRun.joined(runs)
        return None if joined is None else self._append(joined, [len(run) for run in runs], durable)

    @overload
    def add_rows(
        self, rows: PackedRows, *, durable: bool = False, nomkstream: Literal[False] = False
    ) -> tuple[EntryID, EntryID]: ...

    @overload
    def add_rows(
        self, rows: PackedRows, *, durable: bool = False, nomkstream: bool
    ) -> tuple[EntryID, EntryID] | None: ...

    def add_rows(
        self, rows: PackedRows, *, durable: bool = False, nomkstream: bool = False
    ) -> tuple[EntryID, EntryID] | None:
        """Adds rows that were packed elsewhere, with their IDs, as one frame: all of them or, after a crash, none.

        Args:
            rows: what `EntriesReply` of the native core made of a reply.
            durable: return when the entries are on disk, whatever the store's policy.
            nomkstream: do not make the stream where there is none.

        Returns:
            The first ID and the last; None where `nomkstream` kept the rows from being added.

        Raises:
            IDOrderError: the first ID is not above the stream's last one. Nothing is added.
            StorageError: the disk said no. `DiskFullError`: nothing was added; else reopen the store to know.
        """
        return self._write(lambda log: log.native.add_packed(rows, durable, False, log.now()), create=not nomkstream)

    def _append(self, run: AddRun, counts: list[int], durable: bool) -> list[bytes]:
        def append(log: StreamLog) -> list[bytes]:
            added = log.native.add_packed(run.rows, durable, False, log.now())
            return [] if added is None else run.replies_each(added[0], counts)

        return self._write(append) or []
