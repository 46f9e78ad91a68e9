"""Reading so that nothing goes missing in silence: from a lease that is still there, or with a look for losses."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from diskstream import leases
from diskstream.errors import ChangedError, CorruptionError, DataLossError, LostObjectError, NotAStoreError
from diskstream.ids import MIN_ID, EntryID
from diskstream.spark.names import as_text
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = [
    "RUN_AGAIN",
    "UNREADABLE",
    "WITHOUT_LEASE",
    "check_loss",
    "check_same",
    "check_there",
    "fault_of",
    "is_same",
    "whole",
]

_T = TypeVar("_T")

# What `onCorruption=skip` passes over: of an object that the storage says is gone nothing comes back by trying again. A
# storage that does not answer, or refuses, says nothing of what it has.
UNREADABLE: Final = (CorruptionError, LostObjectError)
# Jobs read without a lease only where the store cannot be written to, and have no option to pass over what is gone.
WITHOUT_LEASE: Final = (
    "the store is read-only here, so no lease keeps what is to be read: run this where it can be written to, or keep "
    "what is not read yet from being trimmed, by a consumer group and ref=ACKED"
)
RUN_AGAIN: Final = f"run it again for what is left; {WITHOUT_LEASE}"


def check_there(path: str, given: str) -> None:
    """Makes sure that a task sees what was planned for it.

    Raises:
        NotAStoreError: the lease is gone, or the worker does not see the store.
    """
    if not Path(path).exists():
        seen = "the lease has run out or was removed" if Path(given).exists() else "it is not there"
        raise NotAStoreError(
            path,
            f"{seen}: driver and workers must see the store {given} under the same path, and a DataFrame "
            "or a view that is used for longer than leaseTtl must be loaded, or made, again",
        )


def fault_of(stream: Stream) -> CorruptionError | None:
    """Why a stream cannot be opened at all, where its log is damaged so; None where it opens, whatever of it cannot be
    read."""
    try:
        stream.last_id()
    except CorruptionError as error:
        return error
    return None


def check_loss(
    stream: Stream,
    within: tuple[EntryID, EntryID],
    identity: bytes | None = None,
    advice: str = "",
    *,
    damaged: bool = False,
) -> None:
    """Looks whether what was planned is there.

    Args:
        stream: as it is now.
        within: the first and the last ID that were planned: there was an entry at each end, or between.
        identity: of the stream that was planned, where that is known.
        advice: what the error says is to be done; see `DataLossError`.
        damaged: where it cannot be read up to where the stream was trimmed, what goes by its index.

    Raises:
        DataLossError: some of it was trimmed, or the stream was deleted or replaced.
    """
    first, last = within
    trimmed = stream.trimmed_to(first.prev() or MIN_ID, damaged=damaged)
    if trimmed is not None and trimmed >= first:
        raise DataLossError(
            as_text(stream.name), f"entries up to {trimmed} were trimmed away", f"{first} to {last}", advice
        )
    check_same(stream, within, identity, advice)


def check_same(stream: Stream, within: tuple[EntryID, EntryID], identity: bytes | None, advice: str = "") -> None:
    """Looks whether a stream still is the one that was planned, and reaches as far; arguments as of `check_loss`.

    Raises:
        DataLossError: it was deleted or replaced.
    """
    first, last = within
    now = stream.identity()
    found = ""
    if now is None:
        found = "it is gone"
    elif stream.last_id() < last:
        found = f"it ends at {stream.last_id()}"
    elif identity not in (None, now):
        found = "another one is in its place"
    if found:
        raise DataLossError(as_text(stream.name), f"{found}: it was deleted or replaced", f"{first} to {last}", advice)


def is_same(stream: Stream, identity: bytes | None) -> bool:
    """Whether a stream still is the one of that identity, or it is not known of which it was."""
    return identity in (None, stream.identity())


def whole(
    store: Store,
    name: bytes,
    within: tuple[EntryID, EntryID],
    read: Callable[[Stream], Iterable[_T]],
    *,
    identity: bytes | None = None,
    advice: str = "",
    damaged: bool = False,
) -> Iterator[_T]:
    """What `read` gives of a stream within a range that was planned, as `check_loss` has it: all of it, or an error.

    A lease never loses an entry but with everything else, and is kept while it is read. A store itself may be trimmed
    meanwhile, so it is looked at before and behind.

    Raises:
        NotAStoreError: the lease ran out.
        DataLossError: the store has lost some of it since.
        ChangedError: the stream went while it was read, and is back.
    """
    stream = store.stream(name)
    if leases.is_lease(store.path):
        yield from leases.used(store.path, read(stream))
        return
    check = partial(check_loss, stream, within, identity, advice, damaged=damaged)
    check()
    try:
        yield from read(stream)
    except ChangedError:
        check()  # says what became of the stream
        raise
    check()
