"""One read as a consumer, in one stream or several: a look, and another one each time that something may have come."""

import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from diskstream._native import LOOK_MS, Ctl, Delivery, EntryID, Turn, wait_turns
from diskstream.delivering import NEW, Place, look_up
from diskstream.engine.names import as_name
from diskstream.engine.page import Page
from diskstream.errors import ArgumentError, DiskstreamError, NoGroupError, ReadOnlyError
from diskstream.ids import IDLike, parse_id
from diskstream.membership import as_member_name
from diskstream.reading import Name, positions_of
from diskstream.wanted import Wanted

if TYPE_CHECKING:
    from diskstream.group import Group
    from diskstream.store import Store

__all__ = ["GroupCall", "begin_call"]

_LEAST_SLEEP_S = 0.0005


class GroupCall:
    """A call of XREADGROUP. Where it waits it stands in the queue of each group, until it is closed; who waited for
    what it was not given is woken then.

    Of one thread at a time.

    Attributes:
        waits: whether it waits where there is nothing.
    """

    def __init__(
        self,
        store: "Store",
        owners: Mapping[bytes, tuple["Group", IDLike]],
        consumer: bytes,
        wanted: Wanted,
        turn: Turn | None = None,
        *,
        looked: bool = False,
        checked: bool = False,
    ) -> None:
        """Looks at nothing yet. How long it waits counts from here.

        Args:
            store: of the streams.
            owners: by the name of each stream its group, and where to begin.
            consumer: who reads.
            wanted: how much, and for how long.
            turn: the place that the call has in the queue already, where there is one stream only.
            looked: whether there was a look already: then this is no attempt of the consumer's any more.
            checked: whether each stream was just seen to have its group: the first look need not open it for that.

        Raises:
            ReadOnlyError: the store is open for reading only.
            ArgumentError: a position is none.
        """
        if store.read_only:
            raise ReadOnlyError(str(store.path))
        self._store, self._consumer, self._wanted = store, consumer, wanted
        self._is_closed, self._is_checked = False, checked
        self._places = {
            name: Place(owner, _position(after), turn, looked=looked) for name, (owner, after) in owners.items()
        }
        self.waits = wanted.block is not None and all(place.after == NEW for place in self._places.values())
        wanted.until = None if not wanted.block else time.monotonic() + float(wanted.block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the queues. A look that goes on meanwhile, in a thread that nobody waits for, leaves what it joins."""
        self._is_closed = True
        for turn in self.turns:
            turn.leave()

    def look(self) -> dict[bytes, list[Delivery]]:
        """What there is now in those streams that may have something. Waits for locks and disks, and for no entries.

        Raises:
            NoGroupError: a stream has no such group.
        """
        try:
            return self._look()
        except NoGroupError as error:
            raise NoGroupError(error.stream, error.group, "XREADGROUP") from None
        finally:
            if self._is_closed:
                self.close()

    def _look(self) -> dict[bytes, list[Delivery]]:
        found: dict[bytes, list[Delivery]] = {}
        wanted = self._wanted
        wanted.begin()
        asked = {name: place for name, place in self._places.items() if not place.is_as_it_was()}
        if len(self._places) > 1 and not self._is_checked:
            _check_groups(asked)
        self._is_checked = False
        for name, place in asked.items():
            try:
                waits = self.waits and not found
                entries = look_up(self._store, name, place, self._consumer, wanted, waits=waits)
            except DiskstreamError:
                if not any(found.values()):
                    raise
                break  # what was given is given out; the next call meets the error again
            wanted.took(entries)
            if entries or place.after != NEW:
                found[name] = entries
            if wanted.full:
                break
        return found

    @property
    def is_over(self) -> bool:
        """Whether it ends where a look has found nothing."""
        return not self.waits or self._wanted.over

    @property
    def left(self) -> set[bytes]:
        """The streams in which the last look found something, or left it to others."""
        return {name for name, place in self._places.items() if place.heard is None}

    # --- between two looks --------------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[Turn]:
        """Its places in queues: one of them is called where another look is worth it."""
        return [turn for place in self._places.values() if (turn := place.turn) is not None]

    @property
    def bells(self) -> list[tuple[Ctl, int]]:
        """What rings for it where a queue had no place left, as it was read before the look."""
        return [bell for place in self._places.values() if (bell := place.bell) is not None]

    @property
    def rest_s(self) -> float:
        """Seconds behind a look until another one is worth it though nothing is heard: the time is up, or entries have
        lain long enough to be claimed. Never none: a clock that stands still does not make for one look after another.
        """
        until = self._wanted.until
        left = math.inf if until is None else until - time.monotonic()
        ripe = (place.ripens_in_s for place in self._places.values() if place.ripens_in_s is not None)
        return max(min([left, *ripe]), _LEAST_SLEEP_S)

    def may_have_more(self, is_in_place: Callable[[Page], bool] = Page.is_in_place) -> bool:
        """Whether another look may find something. Who was killed as he appended has called nobody.

        Args:
            is_in_place: as `Place.is_as_it_was`.
        """
        return self.is_over or not all(place.is_as_it_was(is_in_place) for place in self._places.values())

    @property
    def queue(self) -> tuple[Page, int] | None:
        """The page and the group in whose queue it stands, or would if there were a place. None where it waits for
        several streams, or the last look left something, or the stream is not what it was.
        """
        if len(self._places) > 1:
            return None
        (place,) = self._places.values()
        if place.heard is None:
            return None
        page, *_, flags = place.heard
        return place.queue if page.ctl.flags == flags else None

    def waits_for_new(self, is_in_place: Callable[[Page], bool]) -> bool:
        """Whether nothing may have come for it but new entries, which others know of who stand in its queue."""
        if self._wanted.claim_ms is not None or self.is_over:
            return False
        return (queue := self.queue) is not None and is_in_place(queue[0])

    def waits_alike(self, is_in_place: Callable[[Page], bool]) -> tuple[Page, int] | None:
        """The queue that it stands in, where it waits for new entries: of those who stand in it one is enough to look
        whether there are any, since who takes some calls the next. None where nobody calls it.
        """
        return self.queue if self.turns and self.waits_for_new(is_in_place) else None

    def run(self) -> dict[bytes, list[Delivery]]:
        """Looks and sleeps until there is something, or the call is over.

        Raises:
            NoGroupError: as `look`.
            ClosedError: the store was closed meanwhile.
        """
        while True:
            found = self.look()
            if found or self.is_over:
                return found
            # It holds no turn behind that: see `delivering`.
            wait_turns(self.turns, self.bells, min(LOOK_MS / 1000, self.rest_s))
            self._store._check_open()
            if self._wanted.stop is not None and self._wanted.stop.is_set():
                return {}  # nobody would see what it was given; who waits behind it is


def _check_groups(places: Mapping[bytes, Place]) -> None:
    """Nothing is given out of one stream where another has no such group.

    Raises:
        NoGroupError: it has none.
    """
    for place in places.values():
        if not place.owner.exists():
            raise NoGroupError(place.owner.stream.name, place.owner.name)


def _position(after: IDLike) -> EntryID:
    if after in (">", b">"):
        return NEW
    if after in ("$", b"$", "+", b"+"):
        sign = after.decode() if isinstance(after, bytes) else after
        raise ArgumentError(
            f"The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
            f"by specifying a proper ID, or use the > ID to get new messages. The {sign} ID would just return an empty "
            "result set."
        )
    return parse_id(after)


def begin_call(
    store: "Store", group: str | bytes, consumer: str | bytes, positions: Mapping[Name, IDLike], wanted: Wanted
) -> GroupCall:
    """A call with the arguments of `Store.read_group`.

    Raises:
        ClosedError, ReadOnlyError: the store is closed, or open for reading only.
        ArgumentError: a name or a position is none.
    """
    store._check_open()
    key = as_member_name("consumer", consumer)
    owners = {
        as_name(name): (store.stream(name).group(group, create=False), after)
        for name, after in positions_of(positions, wanted.block if wanted.stop is None else None)
    }
    return GroupCall(store, owners, key, wanted)
