"""A command that waits for entries: which keys may end its wait, until when, and how to look again."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from diskstream.commands.replies import NIL_ARRAY, Reply

__all__ = ["Waiting"]


@dataclass(slots=True)
class Waiting:
    """What a command returns that found nothing and may wait.

    Attributes:
        database: the number of the database of `keys`.
        keys: the streams whose change may end the wait.
        until: when it ends, by `time.monotonic`; None is never.
        again: looks again. Returns the reply, or None where there still is nothing; raises `Failure` where the wait
            ends with an error (the group is gone).
        ripe_at: when a look is due though nothing has changed, by `time.monotonic`: pending entries become claimable by
            age. None is never. Called before each wait.
        otherwise: the reply at the end of the time.
        kin: waits that are alike have the same: where one found nothing, the others find nothing either at that moment.
            None is like no other.
        only: the same as `again` at those keys alone that have changed; None looks at all of them.
        of_group: whether it is of a consumer group, which may be taken back behind entries that are there.
        rings: whether each change that may end it rings the bells of its keys: those of keys of other types do not.
        more: whether the next of kin may find something, right behind one that did. Costs less than a look.
    """

    database: int
    keys: tuple[bytes, ...]
    until: float | None
    again: Callable[[], Reply | None]
    ripe_at: Callable[[], float | None] = lambda: None
    otherwise: Reply = NIL_ARRAY
    kin: Hashable = None
    of_group: bool = False
    rings: bool = True
    more: Callable[[], bool] = lambda: True
    only: Callable[[Collection[bytes]], Reply | None] | None = None
