"""Restored as of an earlier ID: exact where the log goes back so far, as near as can be known elsewhere."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Stream
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.backups.rewinding import rewind_files
from diskstream.commits import Commit
from diskstream.store_files import Files
from tests.backups.world import seen_at
from tests.streams.layers import Row

Moment = tuple[EntryID, list[Row], object]


def remembered(store: diskstream.Store, moments: list[Moment]) -> None:
    """Takes note of what the stream is, before the next entry is added."""
    from tests.backups.world import seen

    rows, state = seen(store)[b"x"]
    moments.append((state.last_id, rows, state))


def history(path: Path, *, closed: bool = False) -> list[Moment]:
    """A stream with a past: single entries and batches, reads, acknowledgements, deletes and trims."""
    moments: list[Moment] = []
    with diskstream.open(path, seal="manual", fsync="os") as store:
        stream = store.stream("x")
        group = stream.create_group("g", "0", mkstream=True)
        for number in range(1, 41):
            if number > 1:
                remembered(store, moments)
            _add(stream, number)
            given = group.consumer("ann" if number % 2 else "bob").read(count=2)
            if number % 5 == 0:
                group.ack(*[each.id for each in given])
            if number % 7 == 0:
                stream.delete(f"{number - 3}-0")
            if number % 16 == 0:
                stream.trim(maxlen=12)
            if number == 30:
                stream.create_group("late", "$")
        remembered(store, moments)
        if not closed:
            make_backup(path, path.parent / "backups")
    if closed:
        make_backup(path, path.parent / "backups")
    return moments


def _add(stream: Stream, number: int, pad: int = 60) -> None:
    if number % 4 == 0:
        stream.add_many([{"n": number, "row": row} for row in range(3)], ids=[f"{number}-{row}" for row in range(3)])
    else:
        stream.add({"n": number, "pad": "." * pad}, f"{number}-0")


def restored(tmp_path: Path, until: EntryID, way: str) -> Path:
    target = tmp_path / f"until-{until}"
    done = restore(find_backup(tmp_path / "backups"), target, Wanted(until=until))
    assert [how.way for how in done.streams.values()] == [way], until
    return target


@pytest.mark.parametrize("closed", [False, True], ids=["live", "closed"])
def test_in_the_active_log_the_moment_is_exact_groups_and_all(tmp_path: Path, closed: bool) -> None:
    """The header of a log that was closed knows how far it was durable: further than the moment."""
    moments = history(tmp_path / "store", closed=closed)
    for at, (until, rows, state) in list(enumerate(moments))[:: 3 if closed else 1]:
        target = restored(tmp_path, until, "whole" if at == len(moments) - 1 else "cut")
        assert seen_at(target)[b"x"] == (rows, state), until
        with diskstream.open(target) as store:
            store.stream("x").add({"n": "on"}, f"{until.ms}-{until.seq + 1}")
            assert store.verify().ok


def test_between_two_entries_it_is_the_earlier_one(tmp_path: Path) -> None:
    moments = history(tmp_path / "store")
    (_, rows, state), *_ = [each for each in moments if each[0] == EntryID(21, 0)]
    assert seen_at(restored(tmp_path, EntryID(21, 900), "cut"))[b"x"] == (rows, state)


def test_within_a_batch_its_first_entries_are_there(tmp_path: Path) -> None:
    moments = history(tmp_path / "store")
    before = next(each for each in moments if each[0] == EntryID(35, 0))
    rows, state = seen_at(restored(tmp_path, EntryID(36, 1), "cut"))[b"x"]
    assert [row[0] for row in rows] == [row[0] for row in before[1]] + [EntryID(36, 0), EntryID(36, 1)]
    assert state.entries_added == before[2].entries_added + 2  # type: ignore[attr-defined]  # what `seen_at` kept of it
    assert state.groups == before[2].groups  # type: ignore[attr-defined]  # what `seen_at` kept of it


def test_before_the_first_entry_there_is_none(tmp_path: Path) -> None:
    history(tmp_path / "store")
    rows, state = seen_at(restored(tmp_path, EntryID(0, 5), "cut"))[b"x"]
    assert rows == []
    assert state.last_id == EntryID(0, 0)
    assert [group.name for group in state.groups] == [b"g"]


@pytest.mark.parametrize("way", ["rolled", "sealed"])
def test_through_all_segments_exact_where_cut_and_right_where_copied(tmp_path: Path, way: str) -> None:
    moments: list[Moment] = []
    path = tmp_path / "store"
    with diskstream.open(path, segment_bytes=8192, seal="manual", fsync="os") as store:
        group = store.stream("x").create_group("g", "0", mkstream=True)
        for number in range(1, 121):
            if number > 1:
                remembered(store, moments)
            _add(store.stream("x"), number, pad=140)
            group.ack(*[each.id for each in group.consumer("ann").read(count=1)])
            group.consumer("bob").read(count=1)
            if number % 50 == 0 and way == "sealed":
                store.seal()
            if number == 110:
                store.stream("x").delete("20-0", "108-0", "109-0")
        made = make_backup(path, tmp_path / "backups")
    assert made.damaged == []
    there = {row[0] for row in seen_at(made.path)[b"x"][0]}
    found = Counter[str]()
    for until, rows, state in [*moments[:-8:8], *moments[-8:]]:
        target = tmp_path / f"until-{until}"
        (how,) = restore(find_backup(made.path), target, Wanted(until=until)).streams.values()
        found[how.way] += 1
        if how.way == "cut":
            assert seen_at(target)[b"x"] == (rows, state), until
        else:
            assert seen_at(target)[b"x"][0] == [row for row in rows if row[0] in there], until
    assert found["cut"] > 1
    assert found["copied"] > 10


def sealed(store: diskstream.Store) -> None:
    store.seal()


def compacted(store: diskstream.Store) -> None:
    store.seal()
    store.stream("x").delete("11-0", "12-0", "13-0")
    store.compact()


def dropped(store: diskstream.Store) -> None:
    store.seal()
    store.stream("x").trim(maxlen=2)


@pytest.mark.parametrize("change", [sealed, compacted, dropped], ids=lambda change: change.__name__)
def test_beyond_the_active_log_entries_are_exact_and_groups_never_ahead(
    tmp_path: Path, change: Callable[[diskstream.Store], None]
) -> None:
    with diskstream.open(tmp_path / "store", segment_bytes=8192, seal="manual") as store:
        stream = store.stream("x")
        group = stream.create_group("g", "0", mkstream=True)
        behind = stream.create_group("behind", "0")
        for number in range(1, 201):
            stream.add({"n": number, "pad": "." * 90}, f"{number}-0")
        group.consumer("ann").read(count=150)
        behind.consumer("bob").read(count=5)
        change(store)
        stream.add({"n": 201}, "201-0")
        live = [entry.id for entry in stream]
        added = stream.info().entries_added
        make_backup(store.path, tmp_path / "backups")
    for last in (7, 100, 199):
        until = EntryID(last, 0)
        target = restored(tmp_path, until, "copied")
        rows, state = seen_at(target)[b"x"]
        assert [row[0] for row in rows] == [entry_id for entry_id in live if entry_id <= until]
        assert state.last_id <= until
        assert len(rows) <= state.entries_added <= added - sum(entry_id > until for entry_id in live)
        for found in state.groups:
            assert found.last_delivered_id <= state.last_id
            assert all(row.id <= until for row in found.pending)
        if change is sealed:
            assert state.entries_added == last
            ann, bob = state.groups[1], state.groups[0]
            assert (ann.last_delivered_id, len(ann.pending)) == (EntryID(min(last, 150), 0), min(last, 150))
            assert (bob.last_delivered_id, len(bob.pending)) == (EntryID(5, 0), 5)
        with diskstream.open(target) as store:
            store.stream("x").add({"n": "on"}, f"{last}-7")


def test_a_moment_after_a_drop_is_cut_and_one_before_it_copied(tmp_path: Path) -> None:
    """A cut log would list segments whose files are gone."""
    with diskstream.open(tmp_path / "store", segment_bytes=8192, seal="manual") as store:
        stream = store.stream("x")
        for number in range(1, 101):
            stream.add({"n": number, "pad": "." * 90}, f"{number}-0")
        store.seal()
        stream.add({"n": 101}, "101-0")
        stream.trim(maxlen=1)
        for number in range(102, 105):
            stream.add({"n": number}, f"{number}-0")
        make_backup(store.path, tmp_path / "backups")
    assert [row[0].ms for row in seen_at(restored(tmp_path, EntryID(103, 0), "cut"))[b"x"][0]] == [101, 102, 103]
    # The cut lies behind the trim where it lies behind the entry before it.
    assert [row[0].ms for row in seen_at(restored(tmp_path, EntryID(101, 0), "cut"))[b"x"][0]] == [101]
    assert seen_at(restored(tmp_path, EntryID(100, 0), "copied"))[b"x"][0] == []


def test_what_writers_committed_later_they_may_commit_again(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        for part in range(1, 6):
            store.stream("x").add_many([{"n": part}], ids=[f"{part}-0"], commit=Commit(b"w", 1, part))
        make_backup(store.path, tmp_path / "backups")
    with diskstream.open(restored(tmp_path, EntryID(3, 0), "cut")) as store:
        stream = store.stream("x")
        assert stream.committed(b"w") == (1, 3)
        assert stream.add_many([{"n": 3}], commit=Commit(b"w", 1, 3)) is None
        assert stream.add_many([{"n": 4}], ids=["4-0"], commit=Commit(b"w", 1, 4)) == [EntryID(4, 0)]


def test_a_last_id_that_was_set_later_is_later(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("x")
        stream.add({"n": 1}, "1-0")
        stream.set_id("500-0")
        make_backup(store.path, tmp_path / "backups")
    _, state = seen_at(restored(tmp_path, EntryID(100, 0), "cut"))[b"x"]
    assert state.last_id == EntryID(1, 0)


def test_an_id_that_was_given_later_comes_again_where_the_clock_is_behind_it_unless_the_last_one_is_set(
    tmp_path: Path,
) -> None:
    with diskstream.open(tmp_path / "store", fsync="os", clock=lambda: 50) as store:
        assert [str(store.stream("x").add({"n": n})) for n in range(3)] == ["50-0", "50-1", "50-2"]
        made = make_backup(store.path, tmp_path / "backups")
    (entry,) = made.streams
    with diskstream.open(restored(tmp_path, EntryID(50, 0), "cut"), clock=lambda: 40) as store:
        stream = store.stream("x")
        assert str(stream.add({"n": 1})) == "50-1"
        stream.set_id(entry.last_id)
        assert str(stream.add({"n": 2})) == "50-3"


# What a program in a locale that is not UTF-8 does with a backup at `b` of a stream `é`.
_ABROAD = """
import json, sys
from pathlib import Path
import diskstream
from diskstream.backups import Wanted, find_backup, plan, restore
assert sys.getfilesystemencoding() != "utf-8"
backup, wanted = find_backup(Path("b")), Wanted((b"\\xc3\\xa9",), until=diskstream.EntryID("20-5"))
planned = plan(backup, Path("one"), wanted)
told = [restore(backup, Path(target), what) for target, what in (("all", Wanted(until=wanted.until)), ("one", wanted))]
told.append(restore(backup, Path("other"), wanted))
lengths = [len(diskstream.open(path, read_only=True).stream(b"\\xc3\\xa9")) for path in ("all", "one", "other")]
ways = [how.way for each in told for how in each.streams.values()]
print(json.dumps([[name.hex() for name in planned.streams], ways, lengths]))
"""


def abroad(*words: str, where: Path) -> str:
    """What a program prints in the locale C, without the ways in which Python makes UTF-8 of it."""
    root = str(Path(diskstream.__file__).parent.parent)
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, *words], cwd=where, env={**os.environ, **plain}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_name_is_the_same_in_any_locale(tmp_path: Path) -> None:
    """The manifest has names in UTF-8. Elsewhere they became other bytes: of a stream that was not there, so that
    all of it was restored, or of none at all, which was a traceback."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("é").create_group("g", "0", mkstream=True)
        store.stream("é").set_retention(max_entries=100)
        store.stream("é").add_many([{"n": 1}, {"n": 2}], ids=["10-0", "20-0"])
        store.stream("é").add({"n": 3}, "30-0")
    with diskstream.open(tmp_path / "other") as store:
        store.stream("own").add({"n": 1})
    make_backup(tmp_path / "s", tmp_path / "b")
    names, ways, lengths = json.loads(abroad("-c", _ABROAD, where=tmp_path))
    assert names == [b"\xc3\xa9".hex()]
    assert (ways, lengths) == (["cut", "cut", "copied"], [2, 2, 2])
    words = ("-m", "diskstream", "restore", "b", "--to", "said", "--until", "20-5", "--json")
    said = json.loads(abroad(*words, where=tmp_path))
    assert said["streams"] == {"é": "cut"}
    assert list(said["retention"]) == ["é"]


def test_a_stream_that_is_not_there_is_not_taken_for_one_without_entries(tmp_path: Path) -> None:
    """It had nothing later than any ID, so that what was there was left as it was."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": 1}, "10-0")
    place = tmp_path / "s/streams/x"
    with pytest.raises(diskstream.NoSuchStreamError, match="other"):
        rewind_files(place, place, (b"other", b"x"), EntryID(1, 0), Files())
