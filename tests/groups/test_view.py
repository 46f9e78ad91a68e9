"""The view of pending entries is made from the log, and made anew whatever becomes of it; nobody notices."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

import diskstream
from diskstream import EntryID, Group, Store
from diskstream.engine import view_map
from tests.engine.children import LIMIT_S, child, until
from tests.engine.mounts import unwritable
from tests.engine.sample import files_of, log_of
from tests.groups.workers import (
    SMALL,
    die_behind_the_view,
    die_in_the_view,
    die_reading_the_view,
    fork_and_close,
    fork_and_consume,
    fork_while_waiting,
    serve,
)

Shown = list[tuple[EntryID, bytes, int]]


@contextmanager
def opened(path: Path, **options: object) -> Iterator[tuple[Store, Group]]:
    with diskstream.open(path, **{**SMALL, **options}) as store:
        yield store, store.stream("x").group("g", start="0")


def shown(group: Group) -> Shown:
    """All that is pending, which must be what is counted."""
    rows = [(row.id, row.consumer, row.deliveries) for row in group.pending_range(count=1 << 40)]
    summary = group.pending()
    assert summary.total == len(rows) == group.info().pending
    assert (summary.first, summary.last) == ((rows[0][0], rows[-1][0]) if rows else (None, None))
    assert summary.consumers == {
        each.name: sum(owner == each.name for _, owner, _ in rows) for each in group.consumers() if each.pending
    }
    for each in group.consumers():
        of_consumer = group.pending_range(count=1 << 40, consumer=each.name)
        assert [row.id for row in of_consumer] == [entry_id for entry_id, owner, _ in rows if owner == each.name]
    return rows


def work(group: Group, count: int = 40) -> Shown:
    """Adds, reads, acknowledges, claims and gives back, with all of it beyond what is kept in memory."""
    stream = group.stream
    stream.add_many([{"n": str(number), "pad": "." * 100} for number in range(count)])
    given = [entry.id for entry in group.consumer("alice").read(count=count // 2)]
    given += [entry.id for entry in group.consumer("bob").read(count=count // 2)]
    group.ack(*given[::4])
    group.consumer("bob").claim_ids(*given[1::4])
    group.nack(*given[2 : count // 2 : 8])
    return shown(group)


def has_view(path: Path) -> bool:
    return (path / "view" / "data.mdb").exists()


# --- what becomes of the directory ------------------------------------------------------------------------------------


def _remove(path: Path) -> None:
    shutil.rmtree(path / "view")


def _remove_data(path: Path) -> None:
    (path / "view" / "data.mdb").unlink(missing_ok=True)  # one that was removed in use has no name already


def _remove_locks(path: Path) -> None:
    (path / "view" / "lock.mdb").unlink()


def _empty(path: Path) -> None:
    (path / "view" / "data.mdb").write_bytes(b"")


def _garbage(path: Path) -> None:
    (path / "view" / "data.mdb").write_bytes(os.urandom(1 << 16))


def _other_text(path: Path) -> None:
    (path / "view" / "data.mdb").write_text("not a view " * 1000)


def _garbage_pages(path: Path) -> None:
    """The two meta pages are sound, whatever they lead to is not."""
    data = path / "view" / "data.mdb"
    data.write_bytes(data.read_bytes()[: 2 * 4096] + os.urandom(max(0, data.stat().st_size - 2 * 4096)))


def _garbage_rows(path: Path) -> None:
    """A sound environment, with rows that are none of ours."""
    with lmdb.open(str(path / "view"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if len(key) > 16:
                txn.put(key, b"\xff" * len(value))


def _flipped_bits(path: Path) -> None:
    """A sound environment, with rows that look like ours."""
    with lmdb.open(str(path / "view"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if len(key) > 16:
                txn.put(key, value[:-1] + bytes([value[-1] ^ 1]))


def _exchanged(path: Path) -> None:
    """Rows under the keys of others."""
    with lmdb.open(str(path / "view"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        rows = [(key, value) for key, value in txn.cursor() if len(key) > 16]
        for (key, _), (_, value) in zip(rows, reversed(rows), strict=True):
            txn.put(key, value)


def _garbage_places(path: Path) -> None:
    """A sound environment, where each stream's rows stand nowhere."""
    with lmdb.open(str(path / "view"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if len(key) == 16:
                txn.put(key, bytes(reversed(value)))


def _without_rows(path: Path) -> None:
    """Half of the rows are gone with what says where they stand."""
    with lmdb.open(str(path / "view"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        for number, (key, _) in enumerate(list(txn.cursor())):
            if len(key) == 16 or number % 2:
                txn.delete(key)


def _old_boot(path: Path) -> None:
    (path / "view" / "epoch").write_text("0" * 32)
    _garbage(path)


def _no_epoch(path: Path) -> None:
    (path / "view" / "epoch").unlink()


HARM: dict[str, Callable[[Path], None]] = {
    "removed": _remove,
    "data removed": _remove_data,
    "locks removed": _remove_locks,
    "emptied": _empty,
    "garbage": _garbage,
    "text": _other_text,
    "garbage in the pages": _garbage_pages,
    "garbage in the rows": _garbage_rows,
    "flipped bits in the rows": _flipped_bits,
    "rows exchanged": _exchanged,
    "standing nowhere": _garbage_places,
    "half of it lost": _without_rows,
    "torn by a power cut": _old_boot,
    "without an epoch": _no_epoch,
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_view_that_was_harmed_while_nobody_looked_is_made_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
    assert has_view(tmp_path / "s")
    harm(tmp_path / "s")
    with opened(tmp_path / "s") as (store, group):
        assert shown(group) == before
        assert group.ack(*(entry_id for entry_id, _, _ in before[:5])) == 5
        after = work(group)
        assert after[: len(before) - 5] == before[5:]
        assert store.verify().ok
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == after


@pytest.mark.parametrize("pages", [0, 1, 2, 3, 5])
def test_a_view_that_was_cut_short_ends_no_process(tmp_path: Path, pages: int) -> None:
    """A mapping of what the file has no more ends in SIGBUS: in a process of its own, lest it be this one."""
    with opened(tmp_path / "s") as (_, group):
        before = work(group, 400)
    data = tmp_path / "s" / "view" / "data.mdb"
    assert data.stat().st_size > 6 * 4096
    os.truncate(data, pages * 4096)
    with child(serve, tmp_path / "s", "other", view_map.FIRST_MAP_BYTES) as other:
        assert other.hear() == "ready"
        assert other.ask("list").split() == [str(entry_id) for entry_id, _, _ in before]
        assert other.ask(f"ack {before[0][0]}") == "1"
        assert other.ask("list").split() == [str(entry_id) for entry_id, _, _ in before[1:]]


@pytest.mark.parametrize("harm", [_remove, _remove_data], ids=["removed", "data removed"])
def test_a_view_that_is_removed_in_use_is_made_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        harm(tmp_path / "s")
        assert shown(group) == before
        after = work(group)
        assert after[: len(before)] == before
        log_of(group.stream._store).roll()
        assert shown(group) == after
        harm(tmp_path / "s")
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == after


def test_processes_that_do_not_have_the_same_view_get_along(tmp_path: Path) -> None:
    """Who has it open goes on with what was removed, who comes makes another."""
    with opened(tmp_path / "s") as (_, group):
        work(group)
        _remove_data(tmp_path / "s")
        with child(serve, tmp_path / "s", "other", view_map.FIRST_MAP_BYTES) as other:
            assert other.hear() == "ready"
            for _ in range(5):
                before = work(group)
                assert other.ask("list").split() == [str(row[0]) for row in before]
                assert other.ask(f"ack {before[0][0]} {before[-1][0]}") == "2"
                assert shown(group) == before[1:-1]
                assert other.ask("add 1 2 3 4 5") == "5"
                assert len(other.ask("read 5").split()) == 5
        before = shown(group)
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == before


def test_the_view_of_another_store_says_nothing_of_this_one(tmp_path: Path) -> None:
    for name, count in (("a", 40), ("b", 16)):
        with opened(tmp_path / name) as (_, group):
            work(group, count)
    with opened(tmp_path / "a") as (_, group):
        before = shown(group)
    shutil.rmtree(tmp_path / "a" / "view")
    shutil.copytree(tmp_path / "b" / "view", tmp_path / "a" / "view")
    with opened(tmp_path / "a") as (_, group):
        assert shown(group) == before
        work(group)


@pytest.mark.parametrize("rolled", [False, True], ids=["same segment", "rolled since"])
def test_a_stale_copy_of_the_view_is_brought_up_to_date(tmp_path: Path, rolled: bool) -> None:
    with opened(tmp_path / "s", segment_bytes=1 << 20) as (_, group):
        first = work(group)
    shutil.copytree(tmp_path / "s" / "view", tmp_path / "old")
    with opened(tmp_path / "s", segment_bytes=1 << 20) as (store, group):
        group.ack(*(entry_id for entry_id, _, _ in first[::2]))
        before = work(group)
        if rolled:
            log_of(store).roll()
            group.ack(before[0][0])
            before = shown(group)
    shutil.rmtree(tmp_path / "s" / "view")
    shutil.copytree(tmp_path / "old", tmp_path / "s" / "view")
    with opened(tmp_path / "s", segment_bytes=1 << 20) as (_, group):
        assert shown(group) == before


def test_the_view_of_a_later_moment_is_not_believed(tmp_path: Path) -> None:
    """The store is put back to an earlier state, as from a backup, and the view is not."""
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    with opened(tmp_path / "s") as (_, group):
        group.ack(*(entry_id for entry_id, _, _ in before))
        work(group)
    shutil.rmtree(tmp_path / "backup" / "view")
    shutil.copytree(tmp_path / "s" / "view", tmp_path / "backup" / "view")
    with opened(tmp_path / "backup") as (_, group):
        assert shown(group) == before
        work(group)


def test_a_stream_that_is_deleted_leaves_nothing_in_the_view(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (store, group):
        work(group)
        store.delete("x")
        assert store._view is not None
        assert store._view.read(lambda txn: list(txn.cursor())) == []
        again = store.stream("x").group("g", start="0")
        assert shown(again) == []
        work(again)


# --- who opens it -----------------------------------------------------------------------------------------------------


def test_two_openings_in_one_process_share_the_view(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (store, group), opened(tmp_path / "s") as (other, same):
        assert store._view is other._view
        before = work(group)
        assert shown(same) == before
        more = work(same)
        assert shown(group) == more
        other.close()
        after = work(group)
        assert after[: len(more)] == more
    assert (tmp_path / "s" / "view" / "epoch").read_text() == "clean"
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == after


def test_the_way_to_the_store_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "s", target_is_directory=True)
    with opened(tmp_path / "s") as (store, group), opened(tmp_path / "link") as (other, same):
        assert store._view is other._view
        before = work(group)
        assert shown(same) == before


def test_processes_follow_each_other_through_the_view(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        work(group)
        with child(serve, tmp_path / "s", "other", view_map.FIRST_MAP_BYTES) as other:
            assert other.hear() == "ready"
            for turn in range(20):
                assert other.ask("add 1 2 3") == "3"
                given = other.ask("read 2").split()
                assert len(given) == 2
                [entry] = group.consumer("carol").read(count=1)
                assert other.ask(f"claim {entry.id}") == str(entry.id)
                assert group.ack(given[turn % 2]) == 1
                assert other.ask(f"ack {given[turn % 2]} {entry.id}") == "1"
                assert other.ask("pending") == str(len(shown(group)))


def test_the_map_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_map, "FIRST_MAP_BYTES", 1 << 16)
    with opened(tmp_path / "s", segment_bytes=1 << 22) as (store, group):
        with child(serve, tmp_path / "s", "other", 1 << 16) as other:
            assert other.hear() == "ready"
            assert other.ask("add 1 2 3") == "3"
            assert len(other.ask("read 3").split()) == 3  # this one has its own, small map by now
            work(group, 20_000)
            assert (tmp_path / "s" / "view" / "data.mdb").stat().st_size > 1 << 17
            assert other.ask("pending") == str(len(shown(group)))
            assert len(other.ask("ack " + " ".join(str(row[0]) for row in shown(group)[:500]))) == 3
            assert store._view is not None
        assert len(shown(group)) == 15_003 - 500


@pytest.mark.parametrize("others", [1, 3])
def test_the_slots_of_dead_readers_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    monkeypatch.setattr(view_map, "MAX_READERS", 4)
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        for _ in range(others * 3):
            with child(die_reading_the_view, tmp_path / "s") as reader:
                assert reader.hear() == "reading"
                reader.kill()
        assert shown(group) == before
        work(group)


# --- who dies in it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True], ids=["others have it open", "alone"])
@pytest.mark.parametrize(("death", "word"), [(die_in_the_view, "within"), (die_behind_the_view, "behind")])
def test_a_death_while_the_view_is_written_is_got_over(
    tmp_path: Path, death: Callable[[str], None], word: str, alone: bool
) -> None:
    with opened(tmp_path / "s") as (_, group):
        work(group)
        group.stream.add_many([{"n": "1"}] * 10)
        before = shown(group)
        if alone:
            group.stream._store.close()
        with child(death, tmp_path / "s") as dying:
            assert dying.hear() == word
            dying.kill()
    with opened(tmp_path / "s") as (store, group):
        after = shown(group)
        assert after[: len(before)] == before
        assert [(owner, count) for _, owner, count in after[len(before) :]] == [(b"dead", 1)] * 5
        assert len(group.consumer("alive").read()) == 5
        work(group)
        assert store.verify().ok


@pytest.mark.parametrize(("death", "word"), [(die_in_the_view, "within"), (die_behind_the_view, "behind")])
def test_who_has_the_store_open_goes_on_at_once(tmp_path: Path, death: Callable[[str], None], word: str) -> None:
    with opened(tmp_path / "s") as (_, group):
        work(group)
        group.stream.add_many([{"n": "1"}] * 10)
        before = shown(group)
        with child(death, tmp_path / "s") as dying:
            assert dying.hear() == word
            dying.kill()
        assert len(shown(group)) == len(before) + 5
        assert len(group.consumer("alive").read()) == 5
        after = work(group)
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == after


# --- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
@pytest.mark.parametrize("fsync", ["always", "os"])
def test_parent_and_fork_consume_with_the_same_store(tmp_path: Path, fsync: str) -> None:
    with opened(tmp_path / "s", fsync=fsync) as (_, group):
        ids = group.stream.add_many([{"n": str(number)} for number in range(120)])
    with child(fork_and_consume, tmp_path / "s", fsync) as parent:
        lines = [parent.hear().split() for _ in range(5)]
        first = lines.pop(0)
        [pending] = [line for line in lines if len(line) == 2 and line[0] == line[1]]
        given = [word for line in lines for word in line if "-" in word]
        assert ["0"] in lines
        assert sorted(map(EntryID, first + given)) == ids
    with opened(tmp_path / "s") as (_, group):
        rows = shown(group)
        assert len(rows) == int(pending[0])
        assert {owner for _, owner, _ in rows} <= {b"before", b"fork", b"parent"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
def test_a_fork_that_closes_the_store_closes_its_own_view(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        group.stream.add_many([{"n": str(number)} for number in range(120)])
    with child(fork_and_close, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        total, counted, listed = parent.hear().split()
        assert total == counted == listed == "8"  # of three, one is left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
def test_a_fork_wakes_the_thread_that_waits_in_its_parent(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group), child(fork_while_waiting, tmp_path / "s") as parent:
        assert parent.hear() == "waiting"
        until(lambda: len(group.consumers()) == 1)
        parent.tell()
        assert parent.hear() == "0"
        assert parent.hear(LIMIT_S) == "1"


# --- for reading only -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["as it was", "without", "in the way"])
def test_read_only_shows_what_is_pending_and_writes_nothing(tmp_path: Path, view: str) -> None:
    with opened(tmp_path / "s") as (store, group):
        work(group)
        log_of(store).roll()
        before = work(group)
    if view != "as it was":
        _remove(tmp_path / "s")
    if view == "in the way":
        (tmp_path / "s" / "view").write_bytes(b"a file")
    files, times = files_of(tmp_path), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with diskstream.open(tmp_path / "s", read_only=True, pending_rows=2) as only:
        assert shown(only.stream("x").group("g")) == before
        assert len(only.stream("x").info_full(0).groups[0].pending) == len(before)
        with pytest.raises(diskstream.ReadOnlyError):
            only.stream("x").group("g").ack(before[0][0])
        with pytest.raises(diskstream.ReadOnlyError):
            only.stream("x").group("g").consumer("c").read()
    assert files_of(tmp_path) == files
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == times


def test_read_only_follows_what_another_process_does(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group), diskstream.open(tmp_path / "s", read_only=True) as only:
        for _ in range(4):
            before = work(group)
            assert shown(only.stream("x").group("g")) == before
            log_of(group.stream._store).roll()
            assert shown(only.stream("x").group("g")) == before


def test_a_mount_for_reading_only_shows_what_is_pending(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
    with (
        unwritable(tmp_path, tmp_path.parent / f"{tmp_path.name}-ro") as mount,
        diskstream.open(mount / "s", read_only=True, pending_rows=2) as only,
    ):
        assert shown(only.stream("x").group("g")) == before
