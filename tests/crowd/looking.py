"""Readers: ranges from both ends, single entries, and one that follows the end."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from diskstream import EntryID
from diskstream.ids import MIN_ID
from tests.crowd.journal import ids_of, shown
from tests.crowd.part import Part

__all__ = ["MANY", "follow", "look"]

MANY = 3000
_LONG_S = 20.0


def look(part: Part) -> Callable[[], None]:
    """Ranges from anywhere to anywhere, by count or whole."""
    known: list[EntryID] = []

    def step() -> None:
        chance = part.chance
        low = chance.choice(known) if known and chance.random() < 0.8 else MIN_ID
        count = MANY if chance.random() < 0.02 else chance.choice((1, 5, 60))
        about: dict[str, Any] = {"low": str(low), "count": count}
        way = chance.choice(("range", "range", "revrange", "behind", "one"))
        with part.journal.op(way, **about) as done:
            match way:
                case "range":
                    entries = list(part.stream.range(low, "+", count=count))
                case "revrange":
                    entries = list(part.stream.revrange("+", low, count=count))[::-1]
                case "behind":
                    entries = part.stream.read(low, count=count, block=chance.choice((None, 0.1)))
                case _:
                    found = part.stream.get(low)
                    entries = [] if found is None else [found]
            done.update(part.noted(entries))
        known.extend(entry.id for entry in islice(entries, 0, None, 7))
        del known[:-200]
        part.rest(0.15 if count < MANY else 2.0)

    return step


def follow(part: Part) -> Callable[[], None]:
    """Each entry once, as they come; a new life goes on behind the last one that was noted."""
    last = next((shown(ids_of(op.result["ids"])[-1]) for op in part.before() if op.result.get("ids")), "0-0")
    position = EntryID(last)

    def step() -> None:
        nonlocal position
        with part.journal.op("follow", low=str(position), count=100) as done:
            entries = part.stream.read(position, count=100, block=_LONG_S)
            done.update(part.noted(entries))
            if entries:  # before it is noted that they came: an interruption between the two repeats nothing
                position = entries[-1].id

    return step
