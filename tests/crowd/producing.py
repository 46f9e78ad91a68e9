"""Producers: entries alone and several at once, and messages that are sent again where nobody knows of them."""

from collections.abc import Callable

from tests.crowd.journal import packed
from tests.crowd.part import Part
from tests.crowd.scene import key_of, row_of

__all__ = ["produce", "produce_quietly"]

_BATCHES = (2, 3, 5, 40)


class _Producer:
    def __init__(self, part: Part) -> None:
        self.part, self.number = part, 0
        self.undecided: str | None = None  # a message of which nobody knows whether it was added
        for op in part.before():
            if op.word == "send":
                self.undecided = str(op.about["keys"]) if op.cut else None
                break

    def key(self) -> str:
        self.number += 1
        return key_of(self.part.name, self.part.life, self.number)

    def add(self) -> None:
        key = self.key()
        durable = self.part.chance.random() < 0.1
        with self.part.journal.op("add", keys=key) as done:
            done["ids"] = packed([self.part.stream.add(row_of(key), durable=durable)])

    def add_many(self) -> None:
        keys = [self.key() for _ in range(self.part.chance.choice(_BATCHES))]
        with self.part.journal.op("add" if self.part.line is None else "pipe", keys=" ".join(keys)) as done:
            done["ids"] = packed(self.part.stream.add_many([row_of(key) for key in keys]))

    def send(self) -> None:
        """A message, under an ID of its own: as often as it takes, and now and then once more."""
        key = self.undecided or self.key()
        self.undecided = key
        for _ in range(self.part.chance.choice((1, 1, 1, 2))):
            with self.part.journal.op("send", keys=key) as done:
                made = self.part.stream.add(row_of(key), producer=self.part.name, message_id=key)
                assert made is not None
                done["ids"] = packed([made])
        self.undecided = None


def produce(part: Part) -> Callable[[], None]:
    """Every third producer adds single entries, the next one messages, the next one batches."""
    producer = _Producer(part)
    does = (producer.add, producer.send, producer.add_many)[int(part.name[1:]) % 3]

    def step() -> None:
        does()
        part.pause(part.scene.pause_s * (4 if does == producer.add_many else 1))

    return step


def produce_quietly(part: Part) -> Callable[[], None]:
    """Now and then an entry, so that whoever reads has to wait for it."""
    producer = _Producer(part)

    def step() -> None:
        producer.add()
        part.rest(0.15)

    return step
