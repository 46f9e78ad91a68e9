"""Streams that get another name while a backup, or a lease, holds a moment of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.backups import Settings, make_backup, making
from diskstream.engine import lease as module
from diskstream.store_files import directory_of, pin

SHORT, LONG = b"s", b"s" * 300  # a long name stands in a file beside the stream's


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    with diskstream.open(tmp_path / "store", seal="manual") as opened:
        for name in (SHORT, LONG):
            opened.stream(name).add_many([{"n": n} for n in range(3)], ids=["1-0", "2-0", "3-0"])
        yield opened


def once_before(monkeypatch: pytest.MonkeyPatch, step: str, wanted: Callable[[Path], bool], do: Any) -> None:
    """Does something before a step of the holding is first done with a path that is wanted."""
    real = getattr(module, step)
    done: list[Path] = []

    def watched(path: Path, *args: Any) -> Any:
        if wanted(path) and not done:
            done.append(path)
            do()
        return real(path, *args)

    monkeypatch.setattr(module, step, watched)


def before_files_are_listed(monkeypatch: pytest.MonkeyPatch, store: diskstream.Store, name: bytes) -> None:
    once_before(monkeypatch, "children", lambda path: path.parent.name == "streams", lambda: store.rename(name, b"new"))


def behind_the_lock(monkeypatch: pytest.MonkeyPatch, store: diskstream.Store, name: bytes) -> None:
    def is_first(path: Path) -> bool:
        return path.suffix == ".state" and path.parent.name == directory_of(name)

    once_before(monkeypatch, "_link_if_there", is_first, lambda: store.rename(name, b"new"))


def entries_of(place: Path) -> dict[bytes, int]:
    with diskstream.open(place, read_only=True) as opened:
        return {stream.name: len(list(stream)) for stream in opened}


def test_a_backup_has_a_stream_by_the_name_that_it_gets_as_its_files_are_listed(
    store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_files_are_listed(monkeypatch, store, SHORT)
    made = make_backup(store.path, tmp_path / "backups")
    assert made.damaged == []
    assert entries_of(made.path) == {b"new": 3, LONG: 3}


def test_a_backup_has_a_stream_by_the_long_name_that_it_had_at_its_moment(
    store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind_the_lock(monkeypatch, store, LONG)
    made = make_backup(store.path, tmp_path / "backups")
    assert made.damaged == []
    assert entries_of(made.path)[LONG] == 3


def test_a_lease_passes_over_a_stream_that_goes_as_its_files_are_listed(
    store: diskstream.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_files_are_listed(monkeypatch, store, SHORT)
    assert entries_of(store.lease([SHORT, LONG], ttl_s=60)) == {LONG: 3}


def test_a_lease_has_a_long_name_that_changes_behind_its_moment(
    store: diskstream.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind_the_lock(monkeypatch, store, LONG)
    assert entries_of(store.lease([LONG], ttl_s=60)) == {LONG: 3}


def test_a_backup_is_made_though_streams_are_made_and_removed_all_the_time(
    store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where each job has a stream of its own. None was made: streams come and go all the time, it said."""
    number = 0

    def pinned(*arguments: Any, **options: Any) -> Any:
        nonlocal number
        store.delete(f"job {number}")
        number += 1
        store.stream(f"job {number}").add({"n": number})
        return pin(*arguments, **options)

    store.stream("job 0").add({"n": 0})
    monkeypatch.setattr(making, "pin", pinned)
    made = make_backup(store.path, tmp_path / "backups")
    assert entries_of(made.path).items() >= {SHORT: 3, LONG: 3}.items()
    made = make_backup(store.path, tmp_path / "some", Settings(patterns=(b"s*", b"job *")))
    assert entries_of(made.path).items() >= {SHORT: 3, LONG: 3}.items()
