"""A group in use, and what is refused to it."""

from collections.abc import Callable
from typing import Any

import pytest

from diskstream import Consumer, Delivery, DiskstreamError, Group, Store, Stream
from tests.group_specs.shown import dump, fill

__all__ = ["Call", "Refusal", "World", "cases", "check"]


class World:
    """A group in use: alice has 1-0 and 2-0, bob 3-0, nobody 4-0; 5-0 is new, 2-0 is gone."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.stream: Stream = store.stream("s")
        fill(self.stream, 1, 5)
        self.group: Group = self.stream.group("g", start="0")
        self.alice: Consumer = self.group.consumer("alice")
        bob = self.group.consumer("bob")
        self.mine: list[Delivery] = self.alice.read(count=2)
        bob.read(count=1)
        bob.read(count=1)[0].nack()
        self.stream.delete("2-0")
        self.stream.add({"n": 6}, producer="shop", message_id="m6", id="*")

    def read_group(self, positions: dict[Any, Any], **options: Any) -> Any:
        return self.store.read_group("g", "alice", positions, **options)

    def missing(self, key: str, group: str) -> Group:
        return self.store.stream(key).group(group, create=False)


Call = Callable[[World], Any]
Refusal = tuple[str, Call, type[DiskstreamError], str]


def check(world: World, call: Call, error: type[DiskstreamError], words: str) -> None:
    """Exactly this error with these words in it, and all is as it was."""
    before = dump(world.store)
    with pytest.raises(error) as caught:
        call(world)
    assert type(caught.value) is error
    assert words in str(caught.value)
    assert dump(world.store) == before


def cases(refusals: list[Refusal]) -> pytest.MarkDecorator:
    """A test for each of them."""
    parts = [(call, error, words) for _, call, error, words in refusals]
    return pytest.mark.parametrize(("call", "error", "words"), parts, ids=[each[0] for each in refusals])
