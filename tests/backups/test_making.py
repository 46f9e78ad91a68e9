"""Backups of a live store: what is in them, what they share, and what leaves them alone."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, DiskFullError, Store
from diskstream.backups import (
    BackupError,
    Made,
    Repository,
    Seen,
    Settings,
    check_backup,
    find_backup,
    make_backup,
    making,
)
from diskstream.commands.keyspace import Keyspace
from diskstream.store_files import Moment, pin
from tests.backups.processes import keep_adding, kill_backups
from tests.backups.world import LONG, bulky, filled, flip_in_place, seen, seen_at
from tests.commands.world import Ours
from tests.engine.children import child
from tests.engine.mounts import fill, small_disk
from tests.streams.layers import rows


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


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_a_backup_is_a_store_with_all_that_there_was(store: Store, target: Path) -> None:
    before = seen(store)
    made = make_backup(store.path, target)
    assert seen_at(made.path) == before
    assert made.header.streams == len(before) == 3
    assert made.header.entries == sum(len(entries) for entries, _ in before.values())
    assert not (made.path / "view").exists()
    assert not list(made.path.rglob("ctl"))
    listed = {stream.name.encode("utf-8", "surrogateescape"): stream for stream in made.streams}
    assert listed[LONG].last_id == "5-0"
    assert listed[b"x"].groups == 1
    assert check_backup(find_backup(made.path), Seen()) == []


def test_a_backup_of_a_store_that_nobody_has_open(tmp_path: Path, target: Path) -> None:
    with filled(tmp_path / "store") as store:
        before = seen(store)
    assert seen_at(make_backup(tmp_path / "store", target).path) == before


def test_a_backup_stays_what_it_was_whatever_happens_to_the_store(store: Store, target: Path) -> None:
    before = seen(store)
    made = make_backup(store.path, target)
    stream = store.stream("x")
    stream.delete(*[entry.id for entry in stream][::2])
    store.seal()
    store.compact()
    stream.trim(maxlen=3)
    stream.group("g").destroy()
    store.delete(LONG)
    store.rename("empty", "other")
    store.close()
    assert seen_at(made.path) == before
    assert check_backup(find_backup(target), Seen()) == []


def test_the_audit_of_groups_is_in_it(store: Store, target: Path) -> None:
    store.seal()
    told = list(store.stream("x").audit())
    assert told
    with diskstream.open(make_backup(store.path, target).path, read_only=True) as backup:
        assert list(backup.stream("x").audit()) == told


def test_a_backup_while_another_process_writes(tmp_path: Path, target: Path) -> None:
    with child(keep_adding, tmp_path / "store") as busy:
        assert busy.hear() == "ready"
        made = [make_backup(tmp_path / "store", target) for _ in range(6)]
        added = int(busy.ask())
    for each in made:
        with diskstream.open(each.path, read_only=True) as backup:
            assert backup.verify().ok
            numbers = [int(entry["n"]) for entry in backup.stream("busy")]
            # One moment: no hole in it, and the group has not been given what is not there.
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
            info = backup.stream("busy").group("g", create=False).info()
            assert info.last_delivered_id <= backup.stream("busy").last_id()
    assert added >= made[-1].header.entries > 0


def test_of_a_server_all_databases_and_what_is_known_of_keys(tmp_path: Path, target: Path) -> None:
    with Keyspace(tmp_path / "served") as keyspace:
        ours = Ours(keyspace)
        ours.run("XADD s 1-0 a 1")
        ours.run("SET word yes")
        ours.run("PEXPIRE s 100000000")
        ours.run("SELECT 3")
        ours.run("XADD s 2-0 b 2")
        made = make_backup(tmp_path / "served", target)
    assert {stream.path for stream in made.streams} == {"streams/s", "db3/streams/s", "keys/streams/keys"}
    with diskstream.open(made.path / "db3", read_only=True) as backup:
        assert rows(backup.stream("s"))[0][1] == [(b"b", b"2")]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")], ids=["missing", "damaged"])
@pytest.mark.parametrize("part", ["db3", "keys"])
def test_a_database_that_cannot_be_opened_is_not_left_out(
    tmp_path: Path, target: Path, part: str, damage: Callable[[Path], object]
) -> None:
    """Without its store.json a whole database was passed over, and nothing was said."""
    served = tmp_path / "served"
    with Keyspace(served) as keyspace:
        ours = Ours(keyspace)
        ours.run("SET word yes")
        ours.run("SELECT 3")
        ours.run("XADD s 2-0 b 2")
    damage(served / part / "store.json")
    with pytest.raises(BackupError, match=r"store\.json") as refused:
        make_backup(served, target)
    assert refused.value.where == served / part
    assert "diskstream repair" in str(refused.value.hint)
    assert Repository.open(target).backups() == []
    assert not [repaired for repaired in diskstream.repair(served) if repaired.failed]
    assert make_backup(served, target).header.streams == 2


def test_a_database_that_is_just_being_made_is_left_out(store: Store, target: Path) -> None:
    """Its folder for streams is there first, and its store.json before a stream."""
    (store.path / "db1" / "streams").mkdir(parents=True)
    assert make_backup(store.path, target).header.streams == 3


def test_nobody_writes_to_a_backup(tmp_path: Path, target: Path) -> None:
    with Keyspace(tmp_path / "served") as keyspace:
        Ours(keyspace).run("XADD s 1-0 a 1")
        made = make_backup(tmp_path / "served", target)
    before = sorted(made.path.rglob("*"))
    for path in (made.path, made.path / "keys"):
        with pytest.raises(diskstream.ReadOnlyError, match="it is a backup"):
            diskstream.open(path)
        with pytest.raises(diskstream.ReadOnlyError):
            make_backup(path, tmp_path / "of a backup")
    assert sorted(made.path.rglob("*")) == before


def test_only_some_streams(store: Store, target: Path) -> None:
    made = make_backup(store.path, target, Settings((b"x", b"nothing*")))
    assert list(seen_at(made.path)) == [b"x"]
    assert made.header.patterns == ("x", "nothing*")
    with pytest.raises(BackupError, match="no stream matches"):
        make_backup(store.path, target, Settings((b"nothing*",)))
    assert Repository.open(target).unfinished() == []


# --- what is shared ---------------------------------------------------------------------------------------------------


def test_what_did_not_change_is_shared_with_the_backup_before(store: Store, target: Path) -> None:
    store.seal()
    first = make_backup(store.path, target)
    store.stream("x").add({"more": 1})
    second = make_backup(store.path, target)
    for path in sealed_files(first):
        assert path.samefile(second.path / path.relative_to(first.path))
    both = {
        kept: (first.path / kept).samefile(second.path / kept) for kept in ("store.json", "streams/empty/00000001.log")
    }
    assert both == {"store.json": False, "streams/empty/00000001.log": True}, "a log is shared where it is the same"
    assert second.shared_bytes >= sum(path.stat().st_size for path in sealed_files(first))
    assert second.header.number == first.header.number + 1
    full = make_backup(store.path, target, Settings(full=True))
    assert full.shared_bytes == 0
    assert not sealed_files(full)[0].samefile(sealed_files(second)[0])


def test_a_file_of_the_same_name_that_is_another_is_not_shared(store: Store, tmp_path: Path, target: Path) -> None:
    """A store that was restored goes on with the same names: of streams, of files, of itself."""
    from diskstream.backups import restore

    first = make_backup(store.path, target)
    restore(find_backup(first.path), tmp_path / "again")
    with diskstream.open(tmp_path / "again") as again:
        for opened, word in ((store, "here"), (again, "there")):
            opened.stream("x").add({"where": word})
            opened.seal()
            before = seen(opened)
            assert seen_at(make_backup(opened.path, target).path) == before
    assert check_backup(find_backup(target), Seen()) == []


def test_removed_backups_take_nothing_from_the_others(store: Store, target: Path) -> None:
    from diskstream.backups import prune, superfluous

    before = seen(store)
    for _ in range(3):
        make_backup(store.path, target)
    repository = Repository.open(target)
    prune(repository, superfluous(repository.backups(), keep=1))
    (left,) = repository.backups()
    assert seen_at(left.path) == before
    assert check_backup(left, Seen()) == []


# --- damage -----------------------------------------------------------------------------------------------------------


def test_rot_is_not_carried_on_in_silence(large: Store, target: Path) -> None:
    store = large
    sound = make_backup(store.path, target)
    victim = min(store.path.glob("streams/x/*.seg"))
    flip_in_place(victim, 9000)
    shared = make_backup(store.path, target)
    assert shared.damaged == [], "the sound copy of an earlier backup is what counts"
    copied = make_backup(store.path, target, Settings(full=True))
    (damaged,) = copied.damaged
    assert damaged.name == "x"
    assert victim.name in damaged.faults[0]
    assert copied.header.damaged == 1
    after = make_backup(store.path, target)
    assert sealed_files(after)[0].samefile(sealed_files(sound)[0]), "nothing is taken from a damaged one"
    found = check_backup(find_backup(copied.path), Seen())
    assert [finding.known for finding in found] == [True] * len(found) != []


def test_a_segment_that_is_not_there_is_told(store: Store, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was new was looked at, by the names of its files: one that had no file was nobody's to look at, unless
    the stream begins or ends with it."""
    for _ in range(3):
        store.stream("x").add({"n": 1})
        store.seal("x")
    whole = make_backup(store.path, target)
    gone = sealed_files(whole)[-2].name

    def pin_without_one(*args: Any, **options: Any) -> tuple[Path, dict[str, Moment]]:
        lease, moments = pin(*args, **options)
        (lease / "streams" / "x" / gone).unlink()
        return lease, moments

    monkeypatch.setattr(making, "pin", pin_without_one)
    (damaged,) = make_backup(store.path, target).damaged
    assert damaged.faults == (f"{gone} at 0: the file is missing",)


def test_a_stream_that_takes_no_writes_is_kept_as_it_is(tmp_path: Path, target: Path) -> None:
    with filled(tmp_path / "store") as store:
        store.stream("y").add({"n": 1}, "1-0")
    log = max((tmp_path / "store" / "streams" / "x").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[4096 + 70] ^= 1  # its snapshot: durable for certain
    log.write_bytes(data)
    made = make_backup(tmp_path / "store", target)
    assert [stream.name for stream in made.damaged] == ["x"]
    assert seen_at_of(made.path, "y") == 1
    assert (made.path / "streams" / "x" / log.name).read_bytes()[: len(data)] == bytes(data)


def seen_at_of(path: Path, name: str) -> int:
    with diskstream.open(path, read_only=True) as store:
        return len(store.stream(name))


def test_a_stream_whose_name_cannot_be_read_is_told_and_kept(store: Store, target: Path) -> None:
    (long,) = (store.path / "streams").glob("*~*")
    (long / "name").unlink()
    made = make_backup(store.path, target)
    (damaged,) = made.damaged
    assert "name cannot be read" in damaged.faults[0]
    assert (made.path / damaged.path / "00000001.log").exists()


def test_nothing_is_copied_on_the_disk_of_the_store(store: Store, target: Path) -> None:
    """It may be full, which is why somebody makes a backup."""
    looked = []

    def look(_: int) -> None:
        (lease,) = (store.path / "leases").iterdir()
        for path in lease.glob("streams/*/*.*"):
            assert path.samefile(store.path / path.relative_to(lease))
            looked.append(path)

    make_backup(store.path, target, Settings(on_total=look))
    assert len(looked) > 5


def test_what_is_written_while_it_copies_is_not_in_it(store: Store, target: Path) -> None:
    before = seen(store)

    def write(_: int) -> None:
        for number in range(300):
            store.stream("x").add({"later": number, "pad": "." * 90})
        store.seal()
        store.compact()
        store.delete("empty")

    made = make_backup(store.path, target, Settings(on_total=write))
    assert seen_at(made.path) == before
    assert made.damaged == []


@pytest.mark.parametrize("what", ["*", "*/streams/empty", "*/streams/x/*.seg"])
def test_a_lease_that_somebody_removed_is_said(store: Store, target: Path, what: str) -> None:
    def remove(_: int) -> None:
        for path in (store.path / "leases").glob(what):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(BackupError, match="removed the lease") as refused:
        make_backup(store.path, target, Settings(on_total=remove))
    assert refused.value.hint
    assert Repository.open(target).backups() == []
    make_backup(store.path, target)


# --- where it may be --------------------------------------------------------------------------------------------------


def test_places_that_are_refused(store: Store, tmp_path: Path, target: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    (tmp_path / "alias").symlink_to(store.path)
    for place in (store.path, store.path / "backups", tmp_path / "alias" / "backups"):
        with pytest.raises(BackupError, match="within the store"):
            make_backup(store.path, place)
        assert not (store.path / "backups").exists()
    with pytest.raises(BackupError, match="something else"):
        make_backup(store.path, foreign)
    with pytest.raises(BackupError, match="something else"):
        make_backup(store.path, tmp_path)
    assert sorted(path.name for path in foreign.iterdir()) == ["letter.txt"]
    with diskstream.open(tmp_path / "other") as other:
        other.stream("a").add({"b": 1})
        make_backup(store.path, target)
        with pytest.raises(BackupError, match="another store"):
            make_backup(other.path, target)
    with pytest.raises(diskstream.NotAStoreError):
        make_backup(tmp_path / "nowhere", target)


@pytest.mark.parametrize("place", ["backups/inner", "backups/{}/inner", "backups/{}/streams", "alias/in", "moved/in"])
def test_a_place_within_other_backups_is_refused(store: Store, tmp_path: Path, target: Path, place: str) -> None:
    """The backup around it failed `verify` from then on, and `prune` of that was the end of those within."""
    made = make_backup(store.path, target)
    (tmp_path / "alias").symlink_to(made.path)
    shutil.copytree(made.path, tmp_path / "moved")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BackupError, match=r"it is within the (backup|directory of backups) ") as refused:
        make_backup(store.path, tmp_path / place.format(made.path.name))
    assert "elsewhere" in str(refused.value.hint)
    assert sorted(tmp_path.rglob("*")) == before


def test_two_at_once_are_refused(store: Store, target: Path) -> None:
    make_backup(store.path, target)
    with Repository.open(target).alone(), pytest.raises(BackupError, match="another backup") as refused:
        make_backup(store.path, target)
    assert refused.value.hint
    make_backup(store.path, target)


def test_rot_that_a_killed_backup_had_copied_is_found_by_the_next(large: Store, target: Path) -> None:
    flip_in_place(min(large.path.glob("streams/x/*.seg")), 9000)

    def stop(size_bytes: int) -> None:
        if len(list(target.glob(".new-*/streams/x/*.seg"))) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_backup(large.path, target, Settings(on_bytes=stop))
    made = make_backup(large.path, target)
    assert made.shared_bytes > 0
    assert [stream.name for stream in made.damaged] == ["x"]


@pytest.mark.parametrize("text", ["", "{", "[]\n", '{"path": 1}\n', '{"lease": "../../x", "part": ""}\n', "\xff\x00"])
def test_whatever_stands_in_a_journal_the_next_backup_is_whole(store: Store, target: Path, text: str) -> None:
    make_backup(store.path, target)
    (target / ".new-0123").mkdir()
    (target / ".new-0123" / "journal.jsonl").write_text(text)
    before = seen(store)
    assert seen_at(make_backup(store.path, target).path) == before
    assert Repository.open(target).unfinished() == []


# --- until it counts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"link": True}], ids=["copied", "linked"])
def test_killed_at_each_step_no_half_one_counts_and_the_next_one_is_whole(
    tmp_path: Path, target: Path, options: dict[str, bool]
) -> None:
    with diskstream.open(tmp_path / "store", segment_bytes=8192, seal="manual") as store:
        for number in range(90):
            store.stream("x").add({"n": number, "pad": "." * 90})
        store.seal()
        store.stream("x").add({"n": "last"})
    with child(kill_backups, tmp_path / "store", target, options) as killer:
        assert int(killer.hear(100)) > 20
        assert killer.wait() == 0


def test_a_killed_backup_is_gone_on_with(large: Store, target: Path) -> None:
    """What it had copied is not copied again, unless it has gone bad since."""
    store = large

    def stop(size_bytes: int) -> None:
        if len(list(target.glob(".new-*/streams/x/*.seg"))) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_backup(store.path, target, Settings(on_bytes=stop))
    assert Repository.open(target).backups() == []
    (half,) = Repository.open(target).unfinished()
    flip_in_place(sorted(half.glob("streams/x/*.seg"))[1], 9000)
    made = make_backup(store.path, target)
    assert made.shared_bytes > 0
    assert made.damaged == []
    assert seen_at(made.path) == seen(store)
    assert check_backup(find_backup(made.path), Seen()) == []
    assert Repository.open(target).unfinished() == []


def test_a_full_disk_is_said_and_the_next_backup_goes_on(store: Store, tmp_path: Path) -> None:
    store.seal()
    before = seen(store)
    with small_disk(tmp_path / "disk") as disk:
        (disk / "backups").mkdir()
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - (24 << 10))
        with pytest.raises(DiskFullError, match="free some space"):
            make_backup(store.path, disk / "backups")
        filler.unlink()
        assert seen_at(make_backup(store.path, disk / "backups").path) == before
        assert not list((store.path / "leases").iterdir())


def test_a_disk_that_the_store_is_on_is_not_filled(store: Store, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(making, "_LEFT_BYTES", 1 << 60)
        with pytest.raises(DiskFullError, match="left for the store"):
            make_backup(store.path, target)
    assert make_backup(store.path, target).header.streams == 3


@pytest.mark.parametrize("bound", [0, -1, float("inf")])
def test_a_bound_that_is_none_is_refused(store: Store, target: Path, bound: Any) -> None:
    """Of 0 there was a ZeroDivisionError, half of a backup later; of -1 no bound at all."""
    with pytest.raises(ArgumentError, match="bytes_per_s must be a number above 0"):
        make_backup(store.path, target, Settings(bytes_per_s=bound))
    assert make_backup(store.path, target, Settings(bytes_per_s=100_000_000)).header.streams == 3
