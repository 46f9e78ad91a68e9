"""Streams that MOVE takes from one database to another while a backup looks at one database after another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import store_files
from diskstream.backups import BackupError, Repository, make_backup
from diskstream.backups import making as module
from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours

Say = Callable[..., None]


def served(path: Path) -> Path:
    """A server's directory: `s` in database 3, `own` in both."""
    with Keyspace(path) as keyspace:
        ours = Ours(keyspace)
        for line in ("XADD own 1-0 a 1", "SELECT 3", "XADD s 1-0 a 1", "XADD s 2-0 b 2", "XADD own 1-0 a 1"):
            ours.run(line)
    return path


def between(monkeypatch: pytest.MonkeyPatch, then: Callable[[Path, int], None]) -> None:
    """Calls `then` behind each hold on a database's streams, with its directory and how many there were before."""
    held = [0]

    def pinned(store: Any, *args: Any, **options: Any) -> Any:
        found = store_files.pin(store, *args, **options)
        then(store.path, held[0])
        held[0] += 1
        return found

    monkeypatch.setattr(module, "pin", pinned)


def say(path: Path, *lines: str) -> None:
    with Keyspace(path) as keyspace:
        ours = Ours(keyspace)
        for line in lines:
            ours.run(line)


def kept(path: Path, target: Path) -> dict[str, int]:
    """The streams of a backup, with their entries as they can be read."""
    made = make_backup(path, target)
    found = {}
    for stream in made.streams:
        part = stream.path.rpartition("streams/")[0]
        with diskstream.open(made.path / part, read_only=True) as backup:
            found[stream.path] = len(list(backup.stream(stream.raw_name)))
    found.pop("keys/streams/keys", None)
    return found


@pytest.mark.parametrize(
    ("database", "streams"),
    [(0, {"streams/own": 1, "streams/s": 2}), (5, {"streams/own": 1, "db5/streams/s": 2})],
    ids=["that was looked at", "that was not there"],
)
def test_what_moves_to_another_database_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: int, streams: dict[str, int]
) -> None:
    """It was in neither: of the one it came to late, and of the other it had gone."""
    path = served(tmp_path / "served")

    def move(store: Path, before: int) -> None:
        if store == path and before < 2:
            say(path, "SELECT 3", f"MOVE s {database}")

    between(monkeypatch, move)
    assert kept(path, tmp_path / "backups") == {**streams, "db3/streams/own": 1}
    assert not list(path.glob("leases/*")) + list(path.glob("*/leases/*"))


def test_what_goes_meanwhile_is_no_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = served(tmp_path / "served")
    looks: list[Path] = []

    def delete(store: Path, _: int) -> None:
        looks.append(store)
        if store == path:
            say(path, "XADD fresh 1-0 a 1", "SELECT 3", "DEL s")

    between(monkeypatch, delete)
    assert kept(path, tmp_path / "backups") == {"streams/own": 1, "db3/streams/own": 1}
    assert looks.count(path) == 1


def test_what_never_stays_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = served(tmp_path / "served")

    def move(store: Path, _: int) -> None:
        if store == path:
            say(path, "SELECT 3", "MOVE s 0")
        if store == path / "db3":
            say(path, "MOVE s 3")

    between(monkeypatch, move)
    # It is back in time to be seen where it was: one look later it is not.
    with pytest.raises(BackupError, match="from one database to another"):
        make_backup(path, tmp_path / "backups")
    assert Repository.open(tmp_path / "backups").backups() == []
    assert not list(path.glob("leases/*")) + list(path.glob("*/leases/*"))
