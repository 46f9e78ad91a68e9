"""A stream of many files goes: that takes long, and nobody waits for it who makes, renames or removes another."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from tests.engine.children import LIMIT_S
from tests.engine.stand_ins import Watched

SEGMENTS = 80


def remove(store: Store) -> None:
    store.delete("large")


def replace(store: Store) -> None:
    store.rename("small", "large")


def remove_with_others(store: Store) -> None:
    store._delete_all([b"large", b"none"])


BOTH = pytest.mark.parametrize("let_it_go", [remove, replace, remove_with_others])


class Removal:
    """Lets something be done as the first file of a stream that is gone is about to be removed."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None

    def __call__(self, step: str, path: Path) -> None:
        if step == "unlink" and path.suffix == ".seg" and path.parent.name.startswith((".deleted-", ".gone-")):
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()


@pytest.fixture
def removal() -> Removal:
    return Removal()


@pytest.fixture
def store(tmp_path: Path, removal: Removal) -> Iterator[Store]:
    """A store with a stream of many segments, and another one."""
    at, files = tmp_path / "store", Watched(removal)
    with diskstream.open(at, files=files, seal="manual", fsync="os", segment_bytes=8192) as store:
        for segment in range(SEGMENTS):
            store.stream("large").add({"n": segment})
            store.seal("large")
        store.stream("small").add({"n": 0})
        yield store


@pytest.fixture
def other(store: Store) -> Iterator[Store]:
    """The same store, as another opening has it."""
    with diskstream.open(store.path) as other:
        yield other


def left_over(store: Store) -> list[str]:
    """Directories of streams that are gone."""
    return [path.name for path in (store.path / "streams").iterdir() if path.name.startswith(".")]


@BOTH
def test_another_stream_is_made_while_its_files_go(
    store: Store, other: Store, removal: Removal, let_it_go: Callable[[Store], None]
) -> None:
    """Of some thousand files that took seconds, for which whoever added to a new stream waited."""
    made: list[bool] = []

    def make() -> None:
        making = threading.Thread(target=lambda: other.stream("new").add({"n": 1}))
        making.start()
        making.join(LIMIT_S / 8)
        made.append(not making.is_alive())

    removal.meanwhile = make
    let_it_go(store)

    assert made == [True]
    assert left_over(store) == []
    assert len(other.stream("new")) == 1
    assert other.verify().problems == []


@BOTH
def test_what_somebody_left_on_the_way_is_removed_by_who_makes_the_next_one(
    store: Store, other: Store, removal: Removal, let_it_go: Callable[[Store], None]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    removal.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        let_it_go(store)
    assert len(left_over(store)) == 1

    other.stream("new").add({"n": 1})

    assert left_over(store) == []
    assert sorted(other.streams()) == sorted([b"new", b"large" if let_it_go is replace else b"small"])
    assert other.verify().problems == []


def test_who_makes_one_leaves_alone_what_somebody_is_removing(store: Store, other: Store, removal: Removal) -> None:
    seen: list[list[str]] = []

    def make() -> None:
        other.stream("new").add({"n": 1})
        seen.append(left_over(store))

    removal.meanwhile = make
    assert store.delete("large")

    assert [len(names) for names in seen] == [1]
    assert left_over(store) == []
