"""A view that cannot be read or written for now: what needs it says so, with a way out, and nothing is lost."""

import os
import shutil
from pathlib import Path

import pytest

from diskstream import Group, Store
from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine.state import View, open_view
from diskstream.errors import CorruptionError, LimitError, ReadOnlyError, StorageError
from tests.engine.children import child
from tests.engine.mounts import unwritable
from tests.engine.sample import log_of
from tests.groups.test_view import opened, shown, work
from tests.groups.workers import hold_all_readers


def test_readers_that_live_keep_their_places(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        with child(hold_all_readers, tmp_path / "s") as others:
            assert int(others.hear().removeprefix("held ")) > 1000
            with pytest.raises(LimitError, match="Too many processes and threads look at what is pending") as caught:
                shown(group)
            assert "too large" not in str(caught.value)
            assert group.stream.add({"n": "1"}) is not None
            others.kill()
        assert shown(group) == before


def test_a_view_on_a_mount_for_reading_only_is_told_with_a_way_out(tmp_path: Path) -> None:
    """The log takes entries and gives them out; what needs the view says what is the matter."""
    view = tmp_path / "s" / "view"
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        group.stream.add({"n": "1"})
    with unwritable(view, view), opened(tmp_path / "s") as (_, group):
        assert group.stream.add({"n": "2"}) is not None
        assert [entry["n"] for entry in group.consumer("dora").read(count=1)] == [b"1"]
        for call in (group.pending_range, lambda: group.ack(before[0][0])):
            with pytest.raises(ReadOnlyError, match=r"mounted for reading only.*remove the directory view"):
                call()
    with opened(tmp_path / "s") as (_, group):
        assert shown(group)[: len(before)] == before


def _many_changes(store: Store, group: Group) -> None:
    """Chunks of a snapshot that are changed, emptied and left alone, groups that begin and go, and one made anew."""
    stream = group.stream
    work(group, 600)
    stream.group("still", start="0").consumer("c").read(count=300)
    for name in ("gone", "again"):
        stream.group(name, start="0").consumer("c").read(count=20)
    log_of(store).roll()
    rows = [row[0] for row in shown(group)]
    group.ack(*rows[:200], *rows[300::7])
    group.consumer("carol").claim_ids(*rows[250:270])
    group.nack(*rows[270:280])
    work(group, 10)
    for name in ("gone", "again"):
        stream.group(name).destroy()
    for name in ("again", "late"):
        stream.group(name, start="0").consumer("d").read(count=20)


@pytest.mark.parametrize("held", [False, True], ids=["found so", "while it is open"])
def test_a_stream_whose_view_cannot_be_used_rolls_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """The view is for reading what is pending; a stream that is only written to has no need of it."""
    view, names = tmp_path / "s" / "view", ("g", "still", "again", "late")
    with opened(tmp_path / "s", segment_bytes=1 << 20) as (store, group):
        _many_changes(store, group)
        before = [shown(group.stream.group(name)) for name in names]
        if held:
            with monkeypatch.context() as failing:
                failing.setattr(View, "_run", _fails)
                assert log_of(store).roll()
    shutil.rmtree(view)
    view.write_bytes(b"in the way")
    with opened(tmp_path / "s") as (store, group):
        for number in range(2):
            group.stream.add({"n": str(number)})
            assert log_of(store).roll()
        with pytest.raises(StorageError, match="could not open"):
            group.pending_range()
    view.unlink()
    with opened(tmp_path / "s") as (store, group):
        assert [shown(group.stream.group(name)) for name in names] == before
        assert [each.name for each in group.stream.groups()] == sorted(name.encode() for name in names)
        assert store.verify().ok


def _fails(self: View, *_: object, **__: object) -> None:
    raise StorageError(str(self.path), "use the view in", 5, "the disk fails")


def test_a_view_that_cannot_be_thrown_away_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with opened(tmp_path / "s") as (store, _):
        assert store._view is not None
        monkeypatch.setattr(os, "unlink", refuse)
        with pytest.raises(StorageError, match="could not throw away the view in"):
            store._view.discard()


@pytest.mark.parametrize("into_bytes", [8, 60], ids=["header", "payload"])
def test_a_view_is_not_made_anew_from_a_log_that_was_damaged_meanwhile(tmp_path: Path, into_bytes: int) -> None:
    """Behind the snapshot, the log alone says what is pending: without one of its frames it would be taken for less."""
    with opened(tmp_path / "s") as (store, group):
        frames = []
        for _ in range(2):
            frames.append(log_of(store).native.tail[1])
            work(group)
        log = max((tmp_path / "s" / "streams" / "x").glob("*.log"))
        with log.open("r+b") as file:
            file.seek(frames[1] + into_bytes)
            byte = file.read(1)[0]
            file.seek(frames[1] + into_bytes)
            file.write(bytes([byte ^ 0xFF]))
        open_view(tmp_path / "s" / "view").discard()
        for call in (lambda: shown(group), lambda: group.consumer("dora").claim("0-1", force=True)):
            with pytest.raises(CorruptionError, match=r"\.log"):
                call()


def _damage(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_view_is_not_made_anew_from_a_snapshot_that_was_damaged_meanwhile(tmp_path: Path) -> None:
    """A bit of it made another consumer the owner of an entry, without a word."""
    with opened(tmp_path / "s", segment_bytes=1 << 20) as (store, group):
        work(group)
        log = log_of(store)
        assert log.roll()
        before = shown(group)
        path = max(log.directory.glob("*.log"))
        _damage(path, LOG_HEADER_BYTES + log.native.tail[3] - 16)
        assert shown(group) == before, "it is not asked"
        open_view(tmp_path / "s" / "view").discard()
        for call in (lambda: shown(group), lambda: group.consumer("dora").claim("0-1", force=True)):
            with pytest.raises(CorruptionError, match=r"\.log.*snapshot"):
                call()


def test_what_was_done_is_not_told_as_failed_where_the_view_cannot_be_made_anew_behind_it(tmp_path: Path) -> None:
    """An entry that was given back came out as an error, and the log said that it was."""
    with opened(tmp_path / "s", pending_rows=4, segment_bytes=1 << 20) as (store, group):
        work(group)
        group.stream.add_many([{"n": "1"}] * 8)
        log, carol = log_of(store), group.consumer("carol")
        carol.read(count=1)
        log.pending.checkpoint()
        at = log.native.tail[1]
        known = carol.read(count=4)
        _damage(max(log.directory.glob("*.log")), at + 60)
        open_view(tmp_path / "s" / "view").discard()
        assert len(carol.read(count=1)) == 1
        assert group.nack(known[0].id) == 1
        assert isinstance(log.pending.last_error, CorruptionError)
