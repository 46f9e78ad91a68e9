"""A keyspace, and a caller of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock of `keyspace`."""
    return Clock()


@pytest.fixture
def keyspace(tmp_path: Path, clock: Clock) -> Iterator[Keyspace]:
    """A new keyspace, with a clock that goes when it is told."""
    with Keyspace(tmp_path / "data", clock=clock) as opened:
        yield opened


@pytest.fixture
def ours(keyspace: Keyspace) -> Ours:
    """A caller of it."""
    return Ours(keyspace)
