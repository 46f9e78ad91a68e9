"""Consumers: they read, claim, acknowledge, give back, delete what is done, and leave lying."""

from collections.abc import Callable, Sequence

from diskstream import Delivery
from tests.crowd.journal import packed
from tests.crowd.part import Part

__all__ = ["consume", "deliveries_noted", "wait_in_group"]

# What lies for so long may be taken over: short, so that much is.
_IDLE_MS = 150
_LONG_S = 20.0


def deliveries_noted(part: Part, entries: Sequence[Delivery]) -> dict[str, object]:
    """What a consumer was given, for the journal: also how often each had been delivered before, and which are gone."""
    there = [entry for entry in entries if not entry.gone]
    return {
        **part.noted(there),
        "deliveries": [entry.deliveries for entry in there],
        "gone": packed(entry.id for entry in entries if entry.gone),
    }


class _Consumer:
    def __init__(self, part: Part) -> None:
        self.part, self.group = part, part.group
        self.member = self.group.consumer(part.name)
        self.about = {"group": self.group.name.decode()}

    def _given(self, word: str, give: Callable[[], Sequence[Delivery]], **about: object) -> list[Delivery]:
        with self.part.journal.op(word, **self.about, **about) as done:
            entries = give()
            done.update(deliveries_noted(self.part, entries))
        return [entry for entry in entries if not entry.gone]

    def new(self, count: int, block: float | None) -> list[Delivery]:
        return self._given("new", lambda: self.member.read(count=count, block=block), block=block)

    def backlog(self, count: int) -> list[Delivery]:
        return self._given("backlog", lambda: self.member.read("0", count=count))

    def ripe(self, count: int) -> list[Delivery]:
        """What lay too long, then what is new: which of both, the deliveries say."""
        return self._given("ripe", lambda: self.member.read(count=count, claim_ms=_IDLE_MS, block=0.02))

    def autoclaim(self) -> list[Delivery]:
        with self.part.journal.op("autoclaim", **self.about) as done:
            found = self.member.autoclaim(_IDLE_MS, count=10)
            done.update(deliveries_noted(self.part, found.entries), gone=packed(found.deleted))
        return list(found.entries)

    def claim(self) -> list[Delivery]:
        ids = [row.id for row in self.group.pending_range(count=5, idle_ms=_IDLE_MS)]
        if not ids:
            return []
        return self._given("claim", lambda: self.member.claim(*ids, min_idle_ms=_IDLE_MS), ids=packed(ids))

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def ack(self, entries: Sequence[Delivery]) -> None:
        many = self.part.chance.random() < 0.3
        for some in [entries] if many else [[entry] for entry in entries]:
            ids = [entry.id for entry in some]
            with self.part.journal.op("ack", **self.about, ids=packed(ids)) as done:
                done["count"] = self.group.ack(*ids)

    def ack_delete(self, entries: Sequence[Delivery]) -> None:
        ref = self.part.chance.choice(("KEEPREF", "DELREF", "ACKED"))
        ids = [entry.id for entry in entries]
        with self.part.journal.op("ackdel", **self.about, ids=packed(ids), ref=ref) as done:
            done["answers"] = self.group.ack_delete(*ids, ref=ref)

    def nack(self, entries: Sequence[Delivery]) -> None:
        ids = [entry.id for entry in entries]
        with self.part.journal.op("nack", **self.about, ids=packed(ids)) as done:
            done["count"] = self.group.nack(*ids)

    def finish(self, entries: Sequence[Delivery]) -> None:
        draw = self.part.chance.random()
        if not entries or draw < 0.06:  # left lying
            return
        if draw < 0.12:
            self.nack(entries)
        elif draw < 0.22 and self.part.scene.removal in ("DELREF", "mixed"):
            self.ack_delete(entries)
        else:
            self.ack(entries)


def consume(part: Part) -> Callable[[], None]:
    """Its own backlog first, then whatever comes to mind."""
    consumer = _Consumer(part)
    begun = False

    def step() -> None:
        nonlocal begun
        draw = part.chance.randrange(14) if begun else 0
        begun = True
        match draw:
            case 0:
                given = consumer.backlog(20)
            case 1:
                given = consumer.autoclaim()
            case 2:
                given = consumer.claim()
            case 3 | 4:
                given = consumer.ripe(5)
            case _:
                count = part.chance.choice((1, 3, 10, 100))
                given = consumer.new(count, part.chance.choice((None, 0.02, 0.02, 1.0)))
        consumer.finish(given)
        if not given:
            part.pause(part.scene.pause_s)

    return step


def wait_in_group(part: Part) -> Callable[[], None]:
    """Waits for one entry after the other, and acknowledges each."""
    consumer = _Consumer(part)
    begun = False

    def step() -> None:
        nonlocal begun
        given = consumer.new(1, _LONG_S) if begun else consumer.backlog(100)
        begun = True
        consumer.ack(given)

    return step
