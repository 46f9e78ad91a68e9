"""Stores whose time passes when told to, with what is pending in memory, in the view, and beside sealed segments.

Whatever a test did must outlive its store: it is closed and opened again, once with its view and once without.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Consumer, Group, Store, Stream
from diskstream.engine.files import Files
from tests.group_specs.clock import Clock
from tests.group_specs.shown import dump, fill
from tests.streams.layers import SMALL


class QuickFiles(Files):
    """Leaves it to the system when names of files reach the disk: no test here cuts the power."""

    def sync_dir(self, path: Path) -> None:
        """Does not wait."""


KINDS: dict[str, dict[str, Any]] = {
    "memory": {},
    "view": {"pending_rows": 1},
    "sealed": {**SMALL, "pending_rows": 1},
}


@pytest.fixture
def clock() -> Clock:
    """The store's clock."""
    return Clock()


@pytest.fixture(params=list(KINDS))
def opening(request: pytest.FixtureRequest, clock: Clock) -> dict[str, Any]:
    """How the store is opened."""
    return {"fsync": "os", "clock": clock, **KINDS[request.param]}


@pytest.fixture
def store(tmp_path: Path, opening: dict[str, Any]) -> Iterator[Store]:
    """A new store of each kind."""
    path, opening = tmp_path / "store", {"files": QuickFiles(), **opening}
    before = None
    with diskstream.open(path, **opening) as opened:
        yield opened
        if not opened.closed:
            before = dump(opened)
    for attempt in ("with its view", "without"):
        if attempt == "without":
            shutil.rmtree(path / "view", ignore_errors=True)
        with diskstream.open(path, **opening) as again:
            assert before is None or dump(again) == before, attempt
            assert not again.verify().problems


@pytest.fixture
def stream(store: Store) -> Stream:
    """Entries 1-0 to 5-0."""
    made = store.stream("s")
    fill(made, 1, 5)
    return made


@pytest.fixture
def group(stream: Stream) -> Group:
    """To which all of them are new."""
    return stream.group("g", start="0")


@pytest.fixture
def alice(group: Group) -> Consumer:
    """A consumer that has not read yet."""
    return group.consumer("alice")


@pytest.fixture
def bob(group: Group) -> Consumer:
    """Another one."""
    return group.consumer("bob")
