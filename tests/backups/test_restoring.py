"""Stores made out of backups, and streams put back."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import DiskFullError, EntryID, NoSuchStreamError, Store, Stream, StreamExistsError
from diskstream.backups import (
    Backup,
    BackupError,
    Settings,
    Wanted,
    find_backup,
    make_backup,
    plan,
    restore,
    restoring,
)
from diskstream.backups.repository import Repository
from diskstream.backups.rewinding import copy_until
from diskstream.cli import main
from diskstream.commands.keyspace import Keyspace
from diskstream.copying import is_unfinished, temporary_name
from diskstream.engine import names
from diskstream.errors import ArgumentError, StorageError, quoted
from tests.backups.processes import kill_restores
from tests.backups.world import LONG, bulky, filled, flip_in_place, seen, seen_at
from tests.commands.world import Ours
from tests.engine.children import child
from tests.engine.mounts import small_disk


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    with filled(tmp_path / "store") as store:
        make_backup(store.path, tmp_path / "backups")
    return find_backup(tmp_path / "backups")


# --- a new store ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [False, True], ids=["missing", "empty"])
def test_a_restored_store_is_what_the_store_was_and_can_be_written_to(
    backup: Backup, tmp_path: Path, exists: bool
) -> None:
    target = tmp_path / "deeper" / "restored"
    if exists:
        target.mkdir(parents=True)
    restored = restore(backup, target)
    before = seen_at(backup.path)
    assert restored.entries == sum(len(entries) for entries, _ in before.values())
    assert [path.name for path in target.parent.iterdir()] == ["restored"]
    with diskstream.open(target) as store:
        assert store.recoveries == []
        assert seen(store) == before
        store.stream("x").add({"n": "more"})
        store.seal()
        store.compact()
        assert store.verify().ok
    shutil.rmtree(target)
    assert seen_at(backup.path) == before, "the backup shares something with what was made of it"


def test_a_server_goes_on_where_it_was(tmp_path: Path) -> None:
    with Keyspace(tmp_path / "served") as keyspace:
        ours = Ours(keyspace)
        ours.run("XADD s 1-0 a 1")
        ours.run("SET word yes")
        ours.run("PEXPIRE s 100000000")
        ours.run("SELECT 3")
        ours.run("XADD s 2-0 b 2")
        made = make_backup(tmp_path / "served", tmp_path / "backups")
    restore(find_backup(made.path), tmp_path / "again")
    with Keyspace(tmp_path / "again") as keyspace:
        ours = Ours(keyspace)
        assert ours.run("GET word") == b"yes"
        assert 0 < int(str(ours.run("PTTL s"))) <= 100000000
        ours.run("SELECT 3")
        assert ours.run("XLEN s") == 1


def test_some_streams_and_one_under_another_name(backup: Backup, tmp_path: Path) -> None:
    restore(backup, tmp_path / "some", Wanted((LONG, b"empty")))
    assert list(seen_at(tmp_path / "some")) == [b"empty", LONG]
    for name in (b"short", b"?" * 400):
        restore(backup, tmp_path / name.hex()[:8], Wanted((LONG,), name))
        assert seen_at(tmp_path / name.hex()[:8])[name] == seen_at(backup.path)[LONG]
    with pytest.raises(NoSuchStreamError):
        restore(backup, tmp_path / "none", Wanted((b"nothing",)))
    with pytest.raises(ArgumentError, match="name one"):
        Wanted((b"x", b"empty"), b"y")
    with pytest.raises(ArgumentError, match="must not be empty"):
        Wanted((LONG,), b"")
    assert not (tmp_path / "none").exists()


def test_what_is_there_stays_as_it_is(backup: Backup, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "letter.txt").write_text("dear")
    with pytest.raises(BackupError, match="something already"):
        restore(backup, there)
    with pytest.raises(BackupError, match="is a store already"):
        restore(backup, tmp_path / "store")
    with pytest.raises(BackupError, match="something already"):
        restore(backup, there / "letter.txt")
    assert [path.name for path in there.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("within", ["store/new", "store/streams/y", "alias/y", "backups/new", "backups/{}/new"])
def test_a_target_within_a_store_or_among_backups_is_refused(backup: Backup, tmp_path: Path, within: str) -> None:
    """What was made within a store was a damaged stream of it from then on."""
    (tmp_path / "alias").symlink_to(tmp_path / "store" / "streams")
    make_backup(tmp_path / "store", tmp_path / "backups")
    other = max((tmp_path / "backups").glob("*T*")).name
    before = sorted(tmp_path.rglob("*"))
    for act in (plan, restore):
        with pytest.raises(BackupError, match="it is within the") as refused:
            act(backup, tmp_path / within.format(other))
        assert "elsewhere" in str(refused.value.hint)
    with pytest.raises(BackupError, match="it is within the directory of backups"):
        restore(backup, tmp_path / "backups" / other, Wanted(streams=(b"empty",), name=b"more"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_target_may_have_as_long_a_name_as_there_can_be(backup: Backup, tmp_path: Path) -> None:
    """The hidden name beside it was ten bytes too long."""
    for name in ("n" * 255, "ü" * 127, "n" * 244):
        restore(backup, tmp_path / name)
        assert seen_at(tmp_path / name) == seen_at(tmp_path / "store")
    with pytest.raises(StorageError, match="File name too long"):
        restore(backup, tmp_path / ("n" * 256))
    with pytest.raises(BackupError, match=r"cannot be read: File name too long"):
        Repository.open(tmp_path / ("n" * 256))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("leads_to", ["empty", "nowhere"])
def test_a_link_is_refused_before_anything_is_copied(backup: Backup, tmp_path: Path, leads_to: str) -> None:
    """The whole backup was copied and read back, and then no directory can be put in the place of a link."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / leads_to)
    copied: list[int] = []
    for act in (plan, restore):
        with pytest.raises(BackupError, match="symbolic link") as refused:
            act(backup, tmp_path / "alias", Wanted(on_bytes=copied.append))
        assert str(tmp_path / leads_to) in str(refused.value.hint)
    assert copied == []
    restore(backup, tmp_path / leads_to)


@pytest.mark.parametrize("kind", ["flipped", "missing", "shorter"])
def test_a_damaged_backup_gives_nothing_rather_than_something_else(tmp_path: Path, kind: str) -> None:
    with bulky(tmp_path / "store") as store:
        make_backup(store.path, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    victim = min(backup.path.glob("streams/x/*.seg"))
    if kind == "flipped":
        flip_in_place(victim, 9000)
    elif kind == "missing":
        victim.unlink()
    else:
        victim.chmod(0o640)
        os.truncate(victim, 5000)
    with pytest.raises(BackupError) as refused:
        restore(backup, tmp_path / "restored")
    assert victim.name in str(refused.value)
    assert refused.value.hint
    assert not (tmp_path / "restored").exists()


def test_what_was_damaged_is_taken_only_when_told(tmp_path: Path) -> None:
    with bulky(tmp_path / "store") as store:
        flip_in_place(min(store.path.glob("streams/x/*.seg")), 9000)
        store.stream("y").add({"n": 1})
        make_backup(store.path, tmp_path / "backups", Settings())
    backup = find_backup(tmp_path / "backups")
    with pytest.raises(BackupError, match="was damaged when") as refused:
        restore(backup, tmp_path / "restored")
    assert "--damaged" in str(refused.value.hint)
    restore(backup, tmp_path / "sound", Wanted((b"y",)))
    restore(backup, tmp_path / "restored", Wanted(damaged=True))
    with diskstream.open(tmp_path / "restored") as store:
        assert not store.verify().ok
        assert store.stream("x").get("1000-0") is not None
        assert len(store.stream("y")) == 1


def test_a_manifest_decides_nothing_outside_the_target(backup: Backup, tmp_path: Path) -> None:
    manifest = backup.path / "backup.jsonl"
    text = manifest.read_text()
    manifest.write_text(text.replace("streams/x/00000001", "../../x/00000001"))
    with pytest.raises(diskstream.CorruptionError):
        restore(backup, tmp_path / "restored")
    manifest.write_text(text.rpartition('{"file"')[0])
    with pytest.raises(diskstream.CorruptionError):
        restore(backup, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_full_disk_leaves_nothing(backup: Backup, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with pytest.raises(DiskFullError):
            restore(backup, disk / "restored")
        assert list(disk.iterdir()) == []


def test_a_mount_point_is_refused_by_name(backup: Backup, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        with pytest.raises(BackupError, match="mounted") as refused:
            restore(backup, disk)
        assert not list(tmp_path.glob(".*"))
        assert "below it" in str(refused.value.hint)
        restore(backup, disk / "below")
        assert seen_at(disk / "below") == seen_at(backup.path)


# --- streams of a store -----------------------------------------------------------------------------------------------


def test_a_stream_is_put_back_beside_others(backup: Backup, tmp_path: Path) -> None:
    wanted = seen_at(backup.path)[b"x"]
    with diskstream.open(tmp_path / "store") as store:
        others = {name: each for name, each in seen(store).items() if name != b"x"}
        store.delete("x")
        restored = restore(backup, store.path, Wanted((b"x",)))
        assert restored.entries == len(wanted[0])
        assert seen(store) == {**others, b"x": wanted}
        with pytest.raises(StreamExistsError):
            restore(backup, store.path, Wanted((b"x",)))
        restore(backup, store.path, Wanted((b"x",), b"y"))
        assert seen(store)[b"y"] == wanted
        assert store.verify().ok


def test_a_full_disk_leaves_none_of_several_streams_in_a_store(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was there, and the same command, once there was room, was refused for its name."""
    full = True

    def until_full(source: Stream, target: Stream, *rest: Any) -> None:
        if full and source.name == LONG:
            raise DiskFullError(str(tmp_path), "write", 28, "No space left on device")
        copy_until(source, target, *rest)

    monkeypatch.setattr(restoring, "copy_until", until_full)
    with diskstream.open(tmp_path / "target") as store:
        store.stream("mine").add({"n": 1})
        with pytest.raises(DiskFullError):
            restore(backup, tmp_path / "target", Wanted((b"x", LONG)))
        assert store.streams(unfinished=True) == [b"mine"]
        full = False
        restored = restore(backup, tmp_path / "target", Wanted((b"x", LONG)))
        assert store.streams(unfinished=True) == sorted([LONG, b"mine", b"x"])
        assert restored.entries == len(store.stream("x")) + 1


def test_a_name_that_is_taken_meanwhile_leaves_none_of_several_streams_in_a_store(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(tmp_path / "target") as store:

        def and_taken(source: Stream, target: Stream, *rest: Any) -> None:
            copy_until(source, target, *rest)
            if source.name == LONG:
                store.stream(LONG).add({"n": "mine"})

        monkeypatch.setattr(restoring, "copy_until", and_taken)
        with pytest.raises(StreamExistsError):
            restore(backup, tmp_path / "target", Wanted((b"x", LONG)))
        assert store.streams(unfinished=True) == [LONG]
        assert [entry["n"] for entry in store.stream(LONG)] == [b"mine"]


@pytest.mark.parametrize(("database", "below"), [(0, "."), (3, "db3")])
def test_a_name_that_a_servers_other_key_has_is_not_free(
    backup: Backup, tmp_path: Path, database: int, below: str
) -> None:
    """The restore succeeded, and no command of a server found the stream: the string was found."""
    target = tmp_path / "served" / below
    with Keyspace(tmp_path / "served") as keyspace:
        ours = Ours(keyspace)
        ours.run(f"SELECT {database}")
        ours.run("XADD own 1-0 n 1")  # the store of a database is there once it has a stream
        for line in ("SET str 1", "RPUSH list 1", "SET gone 1", "DEL gone", "SET brief 1 PX 1"):
            ours.run(line)
        ours.run(f"SELECT {database + 1}")
        ours.run("SET elsewhere 1")
        for name, kind in ((b"str", "string"), (b"list", "list")):
            for act in (plan, restore):
                with pytest.raises(BackupError, match=f"key {quoted(name)} there is a {kind}") as refused:
                    act(backup, target, Wanted((b"x",), name))
                assert "--as" in str(refused.value.hint)
        assert list(seen_at(target)) == [b"own"]
        ours.run(f"SELECT {database}")
        for free in ("gone", "brief", "elsewhere"):
            restore(backup, target, Wanted((b"x",), free.encode()))
            assert ours.run(f"TYPE {free}") == b"stream"


def test_a_key_that_a_server_makes_meanwhile_has_its_name(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Keyspace(tmp_path / "served") as keyspace:
        ours = Ours(keyspace)

        def then_set(*given: Any) -> None:
            copy_until(*given)
            ours.run("SET str 1")

        monkeypatch.setattr(restoring, "copy_until", then_set)
        with pytest.raises(BackupError, match="is a string"):
            restore(backup, tmp_path / "served", Wanted((b"x",), b"str"))
        assert ours.run("GET str") == b"1"
    assert seen_at(tmp_path / "served") == {}


def test_a_stream_is_put_back_as_it_was_earlier(backup: Backup, tmp_path: Path) -> None:
    entries, _ = seen_at(backup.path)[b"x"]
    until = entries[len(entries) // 2][0]
    with diskstream.open(tmp_path / "store") as store:
        restore(backup, store.path, Wanted((b"x",), b"earlier", until))
        found, state = seen(store)[b"earlier"]
    assert found == [row for row in entries if row[0] <= until]
    assert state.last_id == until


# --- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "until", "into"),
    [("", "", False), ("x", "60-0", False), ("x", "", True)],
    ids=["a store", "an earlier moment", "into a store"],
)
def test_killed_at_each_step_there_is_nothing_or_everything(
    tmp_path: Path, wanted: str, until: str, into: bool
) -> None:
    with diskstream.open(tmp_path / "store", segment_bytes=8192, seal="manual") as store:
        for number in range(80):
            store.stream("x").add({"n": number, "pad": "." * 90}, f"{number + 1}-0")
        store.seal()
        made = make_backup(store.path, tmp_path / "backups")
    target = tmp_path / "restored"
    if into:
        with diskstream.open(target) as other:
            other.stream("own").add({"n": 1})
    with child(kill_restores, made.path, target, wanted, until) as killer:
        assert int(killer.hear(100)) > 10
        assert killer.wait() == 0
    found = seen_at(target)
    last = EntryID(until) if until else EntryID(80, 0)
    assert found[b"x"][0] == [row for row in seen_at(made.path)[b"x"][0] if row[0] <= last]
    assert into == (b"own" in found)


def test_what_a_killed_restore_has_left_is_nobodys_stream_and_goes_with_the_next(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went with a restore to the same name alone: until then it was listed, backed up and restored as a stream."""
    target = tmp_path / "other"
    with diskstream.open(target) as store:
        store.stream("own").add({"n": 1})

    def killed(*_: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(backup, target, Wanted((b"x",), b"y"))
    (left,) = [name for name in seen_at(target) if is_unfinished(name)]
    server_made = temporary_name()  # whose end nobody here knows
    with diskstream.open(target) as store:
        store.stream(server_made).add({"n": 1})
    listed = CliRunner().invoke(main, ["ls", "--dir", str(target), "--json"]).stdout.splitlines()
    assert [json.loads(line)["stream"] for line in listed] == ["own"]
    for patterns in ((), (b"*",)):
        made = find_backup(make_backup(target, tmp_path / "more", Settings(patterns)).path)
        assert list(seen_at(made.path)) == [b"own"]
    with monkeypatch.context() as patch:
        patch.setattr(names, "is_unfinished", lambda _: False)  # as versions before did
        made = find_backup(make_backup(target, tmp_path / "more").path)
    assert left in seen_at(made.path)
    assert plan(made, tmp_path / "again").streams == [b"own"]
    restore(made, tmp_path / "again")
    assert list(seen_at(tmp_path / "again")) == [b"own"]

    restore(backup, target, Wanted((b"x",), b"z"))
    assert sorted(seen_at(target)) == sorted([server_made, b"own", b"z"])


def test_neither_backup_nor_restore_goes_by_a_rule_of_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long restore trimmed what it had just restored, in its own background."""
    opened: list[Store] = []
    begin = Store._open_page

    def noted(store: Store) -> None:
        opened.append(store)
        begin(store)

    with filled(tmp_path / "store", retention_interval_ms=0) as store:
        store.stream("x").set_retention(max_entries=3)
        before = seen(store)
        monkeypatch.setattr(Store, "_open_page", noted)
        make_backup(store.path, tmp_path / "backups")
        backup, until = find_backup(tmp_path / "backups"), EntryID(1, 0)
        restore(backup, tmp_path / "again")
        restore(backup, tmp_path / "earlier", Wanted(until=until))
        restore(backup, store.path, Wanted((b"x",), b"y"))
    assert [one.path for one in opened if not one.read_only and one.options.retention_interval_ms] == []
    assert seen_at(tmp_path / "again") == before


@pytest.mark.parametrize("line", ["", "SET word yes", "SADD set a"])
def test_a_store_without_a_stream_is_a_store(tmp_path: Path, line: str) -> None:
    """Of a server that had been given no stream yet every backup succeeded, and none could be restored."""
    with Keyspace(tmp_path / "served") as keyspace:
        if line:
            Ours(keyspace).run(line)
    backup = find_backup(make_backup(tmp_path / "served", tmp_path / "backups").path)
    restore(backup, tmp_path / "again")
    with Keyspace(tmp_path / "again") as keyspace:
        assert Ours(keyspace).run("DBSIZE") == (1 if line else 0)
