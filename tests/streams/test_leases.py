"""`Store.lease`: one moment of some streams stays readable, whatever happens to them."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import diskstream
from diskstream import EntryID, NotAStoreError, ReadOnlyError, Store, leases
from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import trimming
from diskstream.engine.files import Files
from diskstream.engine.lease import Moment, link_stream
from diskstream.engine.page import APPEND
from diskstream.store_files import pin
from tests.engine.children import child, hear, say
from tests.streams.layers import Layered, Row, layered, log_of, rows, small_store


def leased(lease: Path, name: str | bytes = "x") -> list[Row]:
    with diskstream.open(lease, read_only=True) as store:
        return rows(store.stream(name))


def nothing(store: Store) -> None:
    assert store.exists("x")


def trimmed(store: Store) -> None:
    store.stream("x").trim(maxlen=0)


def deleted(store: Store) -> None:
    for entry in list(store.stream("x"))[::2]:
        store.stream("x").delete(entry.id)


def sealed(store: Store) -> None:
    store.seal()


def compacted(store: Store) -> None:
    deleted(store)
    store.seal()
    store.compact()
    store.compact()


def grown(store: Store) -> None:
    for number in range(200):
        store.stream("x").add({"later": number, "pad": "." * 100})


def gone(store: Store) -> None:
    assert store.delete("x")


def replaced(store: Store) -> None:
    assert store.delete("x")
    store.stream("x").add({"another": 1}, "1-0")


def renamed(store: Store) -> None:
    store.rename("x", "y")
    store.stream("x").add({"another": 1})


CHANGES = [nothing, trimmed, deleted, sealed, compacted, grown, gone, replaced, renamed]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_lease_is_what_the_stream_was_whatever_happens_to_it(small: Store, change: Callable[[Store], None]) -> None:
    live = layered(small).live
    lease = small.lease(["x"])
    with diskstream.open(lease, read_only=True) as before:  # one reader is there already, another comes later
        found = before.stream("x").range()
        first = next(found)
        change(small)
        assert [(first.id, first.pairs), *rows(found)] == live
        assert leased(lease) == live


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_lease_outlives_the_process_that_made_it(small: Store, change: Callable[[Store], None]) -> None:
    live = layered(small).live
    lease = small.lease(["x"])
    small.close()
    with small_store(small.path) as store:
        change(store)
    assert leased(lease) == live
    with diskstream.open(lease, read_only=True) as store:
        assert store.verify().ok


def test_a_lease_knows_what_the_stream_knew(small: Store) -> None:
    """Cutting, counting and what was trimmed: plans are made from the lease."""
    stream = layered(small).stream
    with diskstream.open(small.lease(["x"]), read_only=True) as store:
        kept = store.stream("x")
        assert kept.splits(max_entries=9) == stream.splits(max_entries=9)
        assert kept.trimmed_to() == stream.trimmed_to()
        assert kept.last_id() == stream.last_id()
        assert kept.count_from("100-0") == stream.count_from("100-0")
        assert len(kept) == len(stream)


def test_what_is_not_flushed_yet_is_leased_too(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for number in range(50):
            store.stream("x").add({"n": number})
            assert len(leased(store.lease(["x"]))) == number + 1


@pytest.mark.usefixtures("no_keepers")  # which flush before they remove files
@pytest.mark.parametrize("drop", ["trim", "compact"])
def test_a_lease_has_the_segments_that_it_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drop: str) -> None:
    """Under `always` a trim, or a compaction, is written under the append lock and flushed behind it. A lease made in
    between linked the segments that were left, and copied a log that ended before the change and listed the others."""
    with small_store(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        for _ in range(3):
            stream.add_many([{"pad": "." * 50}] * 20)
            store.seal()
        stream.delete(*(entry.id for entry in list(stream)[10:50]))
        log = log_of(store)
        if drop == "trim":
            with log.locked():
                log.prepare()
                assert trimming.trim_below(log, list(stream)[15].id, approximate=False, limit=0) == 15
        else:
            monkeypatch.setattr(log, "remove_dropped", lambda: 0)  # which flushes before it removes the files
            assert store.compact()[0].entries_dropped == 20
        assert log.ctl.visible[1] < log.native.tail[1], "written, and not flushed"
        live = leased(store.lease(["x"]))
        assert live == rows(stream)
        assert len(live) == (5 if drop == "trim" else 20)


@pytest.mark.parametrize("name", [b"x", b"a/b", b"\xff\x00", "żółw".encode(), b"Upper", b"n" * 4096])
def test_a_stream_may_have_any_name(store: Store, name: bytes) -> None:
    store.stream(name).add({"n": 1}, "1-0")
    lease = store.lease([name])
    with diskstream.open(lease, read_only=True) as kept:
        assert kept.streams() == [name]
    assert leased(lease, name) == [(EntryID(1, 0), [(b"n", b"1")])]


def test_a_lease_has_the_streams_that_are_named_and_there(store: Store) -> None:
    for name in "abc":
        store.stream(name).add({"n": 1})
    with diskstream.open(store.lease(["c", "a", "none", "a"]), read_only=True) as kept:
        assert kept.streams() == [b"a", b"c"]
    with diskstream.open(store.lease([]), read_only=True) as kept:
        assert kept.streams() == []
    assert store.streams() == [b"a", b"b", b"c"]


def test_nothing_is_written_to_a_lease(small: Store) -> None:
    layered(small)
    lease = small.lease(["x"])
    before = {path: path.read_bytes() for path in lease.rglob("*") if path.is_file()}
    assert leased(lease)
    assert {path: path.read_bytes() for path in lease.rglob("*") if path.is_file()} == before


def test_sealed_segments_are_linked_and_not_copied(small: Store) -> None:
    layered(small)
    lease = small.lease(["x"])
    inodes = {path.stat().st_ino for path in log_of(small).directory.iterdir()}
    kept = [path for path in (lease / "streams" / "x").iterdir() if path.stat().st_ino not in inodes]
    assert [path.suffix for path in kept] == [".log"]  # the active one


def copy_of(lease: Path) -> Path:
    """What a lease has of the active log."""
    return max((lease / "streams" / "x").glob("*.log"))


def test_leases_between_which_nothing_was_added_share_their_copy(small: Store) -> None:
    """Who read every few seconds had as many copies as reads in an hour, of up to 64 MiB each."""
    live = layered(small).live
    small.sync()
    small.lease(["x"])  # the log may not say yet how much of it is durable
    first = small.lease(["x"])
    for number in range(5):  # of other streams, by other readers
        small.stream(f"other {number}").add({"n": number})
        small.lease([f"other {number}"])
    again, other = small.lease(["x"]), small.lease(["x"])
    assert copy_of(first).samefile(copy_of(again))
    assert copy_of(first).samefile(copy_of(other))
    assert not copy_of(first).samefile(log_of(small).directory / copy_of(first).name)
    leases.release(first)
    small.stream("x").trim(maxlen=0)
    assert leased(again) == live == leased(other)


@pytest.mark.parametrize("size", [1, 3000, 5000, 20_000])
def test_leases_of_a_stream_that_grows_share_nothing(small: Store, size: int) -> None:
    wanted = []
    for _ in range(6):
        small.stream("x").add({"pad": "." * size})
        wanted.append((small.lease(["x"]), rows(small.stream("x"))))
    assert len({copy_of(lease).stat().st_ino for lease, _ in wanted}) == len(wanted)
    for lease, live in wanted:
        assert leased(lease) == live


@pytest.mark.parametrize("place", [20, 5_000, -5_000, -1])
def test_a_copy_that_is_not_what_was_copied_is_not_shared(store: Store, place: int) -> None:
    store.stream("x").add_many([{"n": number, "pad": "." * 100} for number in range(100)])
    store.sync()
    first = store.lease(["x"])
    damaged = copy_of(store.lease(["x"]))
    leases.release(first)
    data = bytearray(damaged.read_bytes())
    data[place] ^= 1
    damaged.write_bytes(data)
    again = store.lease(["x"])
    assert not copy_of(again).samefile(damaged)
    assert len(leased(again)) == 100


def test_what_a_lease_remembers_of_a_stream_is_small(store: Store) -> None:
    """A backup holds a moment of each stream at once: with the zeros of its header, 100,000 took 400 MB of memory."""
    store.stream("x").add({"n": 1})
    store.sync()
    _, moments = pin(store, [b"x"], name="backup", ttl_s=60, unreadable=[], on_damage=lambda *told: None)
    (moment,) = moments.values()
    assert len(moment.header) == LOG_HEADER_BYTES
    assert len(moment.packed_header) < 256


def test_the_log_itself_is_no_copy_of_it(tmp_path: Path) -> None:
    """A lease for a backup has it, and it may be as long as a copy; what came later would be in the lease."""
    moment = Moment.of("00000001.log", b"h" * 100, 5000)
    (tmp_path / "log").write_bytes(moment.header + b"frames".ljust(4900, b".") + bytes(7288))
    shutil.copy(tmp_path / "log", tmp_path / "copy")
    with (tmp_path / "log").open("rb") as log, (tmp_path / "copy").open("rb") as copy:
        assert moment.is_in(log.fileno(), copy.fileno())
        assert not moment.is_in(log.fileno(), log.fileno())


def test_a_link_in_place_of_a_copy_is_not_followed(store: Store, tmp_path: Path) -> None:
    store.stream("x").add({"n": 1})
    store.sync()
    first = store.lease(["x"])
    copy = copy_of(store.lease(["x"]))
    leases.release(first)
    copy.rename(tmp_path / "elsewhere")
    copy.symlink_to(tmp_path / "elsewhere")
    again = copy_of(store.lease(["x"]))
    assert not again.is_symlink()
    assert not again.samefile(tmp_path / "elsewhere")


def test_a_store_that_is_only_read_gives_no_lease(small: Store) -> None:
    layered(small)
    with diskstream.open(small.path, read_only=True) as store, pytest.raises(ReadOnlyError):
        store.lease(["x"])


def test_a_store_whose_description_is_gone_gives_no_lease_and_says_why(store: Store) -> None:
    """It was a FileNotFoundError, which is none of ours. All else goes on: who has it open needs it no more."""
    store.stream("a").add({"n": 1})
    (store.path / "store.json").unlink()
    with pytest.raises(NotAStoreError, match=r"store\.json is missing") as told:
        store.lease(["a"])
    assert "repair" in str(told.value.hint)
    assert not list((store.path / "leases").iterdir())
    store.stream("a").add({"n": 2})


# --- how it ends ------------------------------------------------------------------------------------------------------


def age(lease: Path, seconds: float) -> None:
    """Makes the lease's last use so long ago."""
    at = (lease / "lease.json").stat().st_mtime - seconds
    os.utime(lease / "lease.json", (at, at))


def test_a_lease_goes_with_the_next_one_once_its_time_is_over(store: Store) -> None:
    store.stream("x").add({"n": 1})
    old, young, used = (store.lease(["x"], ttl_s=100) for _ in range(3))
    age(old, 101)
    age(young, 90)
    age(used, 101)
    leases.touch(used)
    made = store.lease(["x"])
    assert set((store.path / "leases").iterdir()) == {young, used, made}


def test_what_a_killed_process_left_half_made_goes_after_an_hour(store: Store) -> None:
    store.stream("x").add({"n": 1})
    unfinished = store.path / "leases" / ".new-0123"
    unfinished.mkdir(parents=True)
    store.lease(["x"])
    assert unfinished.exists()
    at = unfinished.stat().st_mtime - 3700
    os.utime(unfinished, (at, at))
    store.lease(["x"])
    assert not unfinished.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ttl_s": "long"}', "{}"])
def test_a_lease_that_cannot_be_read_does_not_stand_in_the_way(store: Store, text: str) -> None:
    store.stream("x").add({"n": 1})
    lease = store.lease(["x"])
    (lease / "lease.json").write_text(text)
    assert len(leased(store.lease(["x"]))) == 1
    assert lease.exists()  # for an hour, as nobody knows


def test_a_released_lease_is_gone_and_who_reads_it_goes_on(small: Store) -> None:
    live = layered(small).live
    lease = small.lease(["x"])
    with diskstream.open(lease, read_only=True) as kept:
        assert rows(kept.stream("x")) == live
        leases.release(lease)
        assert not lease.exists()
    leases.release(lease)
    leases.touch(lease)
    assert not lease.exists()
    assert rows(small.stream("x")) == live


def test_a_lease_that_goes_while_it_is_read_is_no_end_of_the_stream(tmp_path: Path) -> None:
    """What a scan had not come to was missing in silence, and an archive called it archived."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for _ in range(4):
            store.stream("x").add_many([{"n": number} for number in range(100)])
            store.stream("x")._use(lambda log: log.roll(), None)
        lease = store.lease(["x", "y"])
        with diskstream.open(lease, read_only=True) as kept:
            batches = kept.stream("x").scan()
            assert next(batches).num_rows == 100
            leases.release(lease)
            with pytest.raises(NotAStoreError, match="the lease has run out or was released"):
                list(batches)
            with pytest.raises(NotAStoreError, match="the lease has run out or was released"):
                len(kept.stream("x"))
            with pytest.raises(NotAStoreError, match="the lease has run out or was released"):
                len(kept.stream("y"))


def test_what_was_never_in_a_lease_is_empty_there(small: Store) -> None:
    with diskstream.open(small.lease(["x"]), read_only=True) as kept:
        assert len(kept.stream("y")) == 0


def test_a_lease_is_in_use_for_as_long_as_it_is_read(small: Store) -> None:
    lease = small.lease(["x"], ttl_s=0.0)
    os.utime(lease / "lease.json", (1, 1))
    assert list(leases.used(lease, range(3))) == [0, 1, 2]
    assert (lease / "lease.json").stat().st_mtime > 1
    found = leases.used(lease, range(3))
    assert next(found) == 0
    leases.release(lease)
    with pytest.raises(NotAStoreError, match="run out"):
        list(found)


def test_who_reads_a_lease_says_so_four_times_in_its_time(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said more rarely, it could run out between two entries of who reads steadily."""
    lease = small.lease(["x"], ttl_s=8.0)
    now = 100.0
    said: list[float] = []

    def entries() -> Iterator[int]:
        nonlocal now
        for number in range(9):
            yield number
            now += 1.0

    with monkeypatch.context() as patched:
        patched.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now))
        patched.setattr(leases, "touch", lambda _: said.append(now))
        assert list(leases.used(lease, entries())) == list(range(9))
    assert said == [100.0, 102.0, 104.0, 106.0, 108.0]


def test_a_lease_goes_at_once(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody finds a part of it and takes that for all; who is killed in the middle leaves nothing for long."""
    lease = small.lease(["x"])
    monkeypatch.setattr("diskstream.engine.lease.shutil.rmtree", lambda *_, **__: None)
    leases.release(lease)
    monkeypatch.undo()
    assert not lease.exists()
    left = list(lease.parent.iterdir())
    assert [each.name for each in left] == [f".gone-{lease.name}"]
    small.lease(["x"])
    assert not left[0].exists()


# --- beside a process that appends ------------------------------------------------------------------------------------


def append_until_told(path: str) -> None:
    """Adds entries, three to a frame, seals now and then, and stops when it is told, or has added many."""
    import select
    import sys

    with small_store(path) as store:
        number = 0
        while number < 12_000 and not select.select([sys.stdin], [], [], 0)[0]:
            store.stream("x").add_many([{"n": str(number + each), "pad": "." * 50} for each in range(3)])
            number += 3
            if number % 999 == 0:
                store.seal()
            if number == 300:
                say("begun")
        say(number)
        hear()


def test_a_lease_made_while_others_append_is_a_prefix_of_whole_frames(tmp_path: Path) -> None:
    from tests.streams import test_leases  # by the name that the child knows it by

    with child(test_leases.append_until_told, tmp_path / "s") as writer:
        assert writer.hear() == "begun"
        lengths = []
        with small_store(tmp_path / "s") as store:
            for _ in range(30):
                lease = store.lease(["x"])
                found = [int(dict(pairs)[b"n"]) for _, pairs in leased(lease)]
                assert found == list(range(len(found)))
                assert len(found) % 3 == 0
                lengths.append(len(found))
                leases.release(lease)
            total = int(writer.ask())
            assert len(leased(store.lease(["x"]))) == total
        assert lengths == sorted(lengths)
        assert 300 <= lengths[0] <= lengths[-1] <= total


def test_leases_of_two_moments_differ_by_what_came_between(small: Store) -> None:
    made: Layered = layered(small)
    first, live = small.lease(["x"]), list(made.live)
    made.add(30)
    second = small.lease(["x"])
    assert leased(first) == live
    assert leased(second) == made.live


def test_writers_do_not_wait_while_segments_are_linked(small: Store, tmp_path: Path) -> None:
    layered(small)
    log = log_of(small)
    linked: dict[bool, list[str]] = {True: [], False: []}

    class Watching(Files):
        def link(self, source: Path, target: Path) -> None:
            linked[self.is_free()].append(source.name)
            super().link(source, target)

        def is_free(self) -> bool:
            """Also where the thread that flushes has the lock just now: it gives it up, and who links would not."""
            never = threading.Event()
            for _ in range(1000):
                with log.ctl.locked(APPEND, False) as is_free:
                    if is_free:
                        return True
                never.wait(0.001)
            return False

    link_stream(log, tmp_path, Watching())
    assert linked[False] == []
    assert len(linked[True]) >= len(log.segments.views()) > 3


def test_nobody_writes_to_a_lease(tmp_path: Path) -> None:
    """Its files are the store's: who opened that of a backup that was being made wrote over what others had added."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        store.stream("x").add({"n": 1})
        lease, _ = pin(store, [b"x"], name="1f", ttl_s=60, unreadable=[], on_damage=lambda *_: None)
        with (
            pytest.raises(ReadOnlyError, match="it is a lease, to be opened read-only"),
            diskstream.open(lease) as other,
        ):
            other.stream("x").add({"n": "another"})
        with pytest.raises(ReadOnlyError, match="it is a lease, to be opened read-only"):
            list(diskstream.repair(lease))
        store.stream("x").add({"n": 2})
    with diskstream.open(tmp_path / "s") as store:
        assert [entry["n"] for entry in store.stream("x")] == [b"1", b"2"]
        assert store.verify().ok
