"""A consumer that waits without sleeping here: between its looks it stands in the queue of its group, as others do."""

from typing import TYPE_CHECKING

from diskstream._native import Delivery
from diskstream.delivering import NEW, Place, look_up
from diskstream.wanted import Wanted

if TYPE_CHECKING:
    from diskstream.group import Group

__all__ = ["Standing"]


class Standing:
    """For who serves many waits at once, a server say. Dropped without being served, it wakes the next in the queue."""

    def __init__(self, group: "Group", consumer: bytes, wanted: Wanted) -> None:
        """Stands nowhere before the first look.

        Args:
            group: whose new entries are waited for.
            consumer: who waits.
            wanted: how much of them.
        """
        self.store = group.stream._store
        self._name, self._consumer, self._wanted = group.stream.name, consumer, wanted
        self._place = Place(group, NEW)

    def look(self) -> list[Delivery]:
        """What there is by now that is left to nobody who has waited longer.

        Raises:
            NoGroupError: the group is gone.
        """
        self._wanted.begin()
        return look_up(self.store, self._name, self._place, self._consumer, self._wanted, waits=True)
