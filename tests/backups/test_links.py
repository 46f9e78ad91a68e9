"""What a backup shares with the store's own files: with `link` all that is sealed, and else nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.backups import Made, Seen, Settings, check_backup, find_backup, make_backup
from tests.backups.world import bulky, filled, flip_in_place


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with filled(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Store]:
    with bulky(tmp_path / "large") as opened:
        yield opened


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def sealed_files(made: Made) -> list[Path]:
    return sorted(made.path.glob("streams/x/*.seg"))


def test_a_copy_shares_nothing_with_the_store_and_a_link_does(store: Store, target: Path) -> None:
    store.seal()
    copied = make_backup(store.path, target)
    linked = make_backup(store.path, target, Settings(link=True, full=True))
    for made, shared in ((copied, False), (linked, True)):
        for path in sealed_files(made):
            assert path.samefile(store.path / path.relative_to(made.path)) == shared
        for path in made.path.glob("streams/*/*.log"):
            assert not path.samefile(store.path / path.relative_to(made.path)), "a log is written to"
    assert linked.linked_bytes > 0


def test_a_copy_behind_a_link_is_a_copy(large: Store, target: Path) -> None:
    """It shared the store's own files with the backup before, so that one damaged block was damage to all of them."""
    linked = make_backup(large.path, target, Settings(link=True))
    copied = make_backup(large.path, target)
    again = make_backup(large.path, target)
    for path in sealed_files(linked):
        own, first, second = (each / path.relative_to(linked.path) for each in (large.path, copied.path, again.path))
        assert own.samefile(path)
        assert not own.samefile(first)
        assert first.samefile(second), "what was copied once is shared"
    flip_in_place(min(large.path.glob("streams/x/*.seg")), 9000)
    assert check_backup(find_backup(again.path), Seen()) == []
    assert not diskstream.verify(large.path).ok
