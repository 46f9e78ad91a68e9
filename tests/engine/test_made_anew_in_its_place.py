"""A store that somebody moves under its processes, and another one made in its place: neither harms the other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import StorageError, Store, verify
from diskstream.engine.whereabouts import StreamMoved, refuse_elsewhere
from tests.engine.sample import SMALL

_COUNT = 120  # in several segments


def fill(store: Store, who: str) -> None:
    """Segments that are sealed, one that is rolled, and the active one."""
    stream = store.stream("x")
    stream.add_many([{"who": who, "n": n, "pad": "." * 200} for n in range(_COUNT)])
    store.seal()
    for n in range(_COUNT, 2 * _COUNT):
        stream.add({"who": who, "n": n, "pad": "." * 200})


@pytest.fixture
def both(tmp_path: Path, no_keepers: None) -> Iterator[tuple[Store, Store]]:
    """The store that was moved to `aside`, and the one that was made at its path."""
    moved = diskstream.open(tmp_path / "store", **SMALL)
    fill(moved, "moved")
    (tmp_path / "store").rename(tmp_path / "aside")
    with diskstream.open(tmp_path / "store", **SMALL) as made:
        fill(made, "made")
        yield moved, made
    moved.close()


def rolls(store: Store) -> None:
    """Adds until a segment is full."""
    for _ in range(_COUNT):
        store.stream("x").add({"who": "moved", "n": -1, "pad": "." * 200})


def drops(store: Store) -> None:
    """Leaves nothing in segments from before."""
    store.stream("x").trim(maxlen=0)
    store.sync()
    store.compact()


@pytest.mark.parametrize(
    "use",
    [
        rolls,
        drops,
        Store.seal,
        Store.compact,
        lambda store: store.delete("x"),
        lambda store: store.rename("x", "y"),
        lambda store: store.stream("new").add({"n": 1}),
    ],
    ids=["roll", "drop", "seal", "compact", "delete", "rename", "make"],
)
def test_what_the_moved_one_does_to_its_files_is_done_to_no_others(
    both: tuple[Store, Store], tmp_path: Path, use: Callable[[Store], object]
) -> None:
    """Its next segments were put among those of the other store, which held these entries, and not its own, from the
    next opening on; segments that it dropped, and streams that it removed, were removed there."""
    moved, made = both
    with pytest.raises(StorageError, match="removed or moved while it was open"):
        use(moved)
    moved.close()
    made.stream("x").add({"who": "made", "n": 2 * _COUNT})
    made.close()
    assert verify(tmp_path / "store").problems == []
    with diskstream.open(tmp_path / "store") as again:
        assert again.streams() == [b"x"]
        assert [entry["n"] for entry in again.stream("x").range()] == [b"%d" % n for n in range(2 * _COUNT + 1)]
        assert {entry["who"] for entry in again.stream("x").range()} == {b"made"}


def test_the_moved_one_loses_nothing(both: tuple[Store, Store], tmp_path: Path) -> None:
    """Its log named a successor that was in the other store: nobody could open it any more."""
    moved, _ = both
    with pytest.raises(StorageError, match="open the store where it is now"):
        rolls(moved)
    moved.close()
    assert verify(tmp_path / "aside").problems == []
    with diskstream.open(tmp_path / "aside") as again:
        numbers = [int(entry["n"]) for entry in again.stream("x").range()]
        assert numbers[: 2 * _COUNT] == list(range(2 * _COUNT))
        again.stream("x").add({"n": 1})


def test_one_that_is_back_goes_on(tmp_path: Path, no_keepers: None) -> None:
    """A full segment of a store that is not at its path ended in a FileNotFoundError."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        fill(store, "moved")
        (tmp_path / "store").rename(tmp_path / "aside")
        with pytest.raises(StorageError, match="removed or moved while it was open"):
            rolls(store)
        (tmp_path / "aside").rename(tmp_path / "store")
        before = len(store.stream("x"))
        rolls(store)
        assert len(list(store.stream("x").range())) == before + _COUNT
        assert store.verify().problems == []


@pytest.mark.parametrize("is_made_anew", [False, True], ids=["nothing there", "another there"])
def test_what_cannot_be_read_there_any_more_is_not_called_damaged(
    tmp_path: Path, no_keepers: None, is_made_anew: bool
) -> None:
    """Whoever is on call would have repaired a sound store."""
    with diskstream.open(tmp_path / "store", **SMALL) as moved:
        fill(moved, "moved")
        (tmp_path / "store").rename(tmp_path / "aside")
        if is_made_anew:
            with diskstream.open(tmp_path / "store", **SMALL) as made:
                fill(made, "made")
        stream = moved.stream("x")
        for read in (lambda: list(stream.range()), lambda: list(stream.splits()), lambda: list(stream.audit())):
            with pytest.raises(StorageError, match="removed or moved while it was open"):
                read()


def test_what_another_process_has_renamed_was_not_moved_by_hand(tmp_path: Path) -> None:
    """Whoever is between two looks then is to look the name up again."""
    with diskstream.open(tmp_path / "store") as store, diskstream.open(tmp_path / "store") as other:
        store.stream("x").add({"n": 1})
        log = store._log(b"x", create=False)
        assert log is not None
        other.rename("x", "y")
        with pytest.raises(StreamMoved):
            refuse_elsewhere(log.directory, log.page)
        store.stream("x").add({"n": 2})
        assert other.streams() == [b"x", b"y"]
