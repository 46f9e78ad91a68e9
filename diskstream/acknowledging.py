"""XACK, for one who asks and for several at once: in one native call where nothing stands in the way, else here."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from diskstream._native import EntryID
from diskstream.delivering import VIEW
from diskstream.engine.log import StreamLog
from diskstream.membership import locked, now_ms
from diskstream.taking import finish

if TYPE_CHECKING:
    from diskstream.group import Group

__all__ = ["Acknowledged", "acknowledge", "acknowledge_by", "acknowledge_held"]

_T = TypeVar("_T")

# What one who asks names: entries, and the consumer that must still have them; None is whosever they are.
Acknowledged: TypeAlias = tuple[list[EntryID], bytes | None]


def acknowledge(group: "Group", asked: Sequence[Acknowledged]) -> list[int]:
    """Acknowledges what several ask for, in their order, and waits once where there is a flush to wait for.

    Returns:
        How many of each were pending; 0 where there is no such group.

    Raises:
        ReadOnlyError: the store is.
        StorageError: the disk said no; what comes first may be acknowledged.
    """
    done: list[int] = []
    for ids, consumer in asked:
        pending = finish(group, ids, consumer)
        if pending is None:
            return done + acknowledge_held(group, asked[len(done) :])
        done.append(pending)
    return done


def acknowledge_held(group: "Group", asked: Sequence[Acknowledged]) -> list[int]:
    """The same under the append lock, for who was told by `finish` that the long way is to be gone."""
    done: list[int] = []

    def one_by_one(log: StreamLog) -> None:
        number = log.native.group_number(group.name)
        # Where the stream moves meanwhile, this begins anew: with those that are not done.
        for ids, consumer in asked[len(done) :]:
            done.append(0 if number is None else _acknowledge(log, number, ids, consumer))

    group.stream._use(lambda log: locked(log, one_by_one), None)
    return done + [0] * (len(asked) - len(done))  # there is no stream, or none any more


def acknowledge_by(
    log: StreamLog, group: int, wanted: Callable[[], list[EntryID]], attempt: Callable[[bool], tuple[int, _T]]
) -> _T:
    """What `attempt` says, once it gives no reason any more. Under the append lock.

    Args:
        wanted: the IDs.
        attempt: is told whether what the view knows of them was asked for already.
    """
    asked = False
    while True:
        code, found = attempt(asked)
        if code == 0:
            return found
        if code == VIEW:
            log.pending.learn(group, wanted())
            asked = True
        else:
            log.resolve(code, held=True)
            asked = False  # a roll begins the overlays anew


def _acknowledge(log: StreamLog, group: int, ids: list[EntryID], consumer: bytes | None) -> int:
    if consumer is not None:
        owner = log.native.consumer_number(group, consumer)
        log.pending.learn(group, ids)
        rows = log.native.find_pending(group, ids)
        ids = [each for each, row in zip(ids, rows, strict=True) if row is not None and row[1] == owner]
    return acknowledge_by(log, group, lambda: ids, lambda asked: log.native.acknowledge(group, ids, now_ms(log), asked))
