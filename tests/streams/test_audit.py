"""The audit of groups: it tells who had which entry, wherever its frames lie by now, and nothing else rests on it."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, AuditRecord, CorruptionError, DiskFullError, EntryID, Store, Stream
from diskstream.engine.files import Files, NewFile
from tests.streams.layers import log_of, small_store

Brief = tuple[str, str | None, bytes | None, bytes | None]


def brief(records: Any) -> list[Brief]:
    """Action, ID, consumer, owner before."""
    return [(it.action, None if it.id is None else str(it.id), it.consumer, it.owner_before) for it in records]


def of_entries(records: Any) -> list[Brief]:
    return [row for row in brief(records) if row[0] not in ("create", "consumer", "position")]


def work(stream: Stream, first: int, count: int = 4) -> None:
    """Adds entries; `a` is given them, acknowledges the first, gives back the second; `b` takes over the third."""
    ids = [EntryID(number, 0) for number in range(first, first + count)]
    stream.add_many([{"n": number.ms} for number in ids], ids=ids)
    group = stream.group("g", start="0")
    group.consumer("a").read(count=count)
    group.ack(ids[0])
    group.nack(ids[1])
    group.consumer("b").claim(ids[2])


def told(first: int, count: int = 4) -> list[Brief]:
    """What the audit tells of `work`."""
    one, two, three = (f"{first + place}-0" for place in range(3))
    given: list[Brief] = [("deliver", f"{number}-0", b"a", None) for number in range(first, first + count)]
    return [*given, ("ack", one, None, b"a"), ("refuse", two, None, b"a"), ("claim", three, b"b", b"a")]


def audits(store: Store) -> list[str]:
    return sorted(path.name for path in log_of(store).directory.glob("*.audit"))


@pytest.fixture
def layered(tmp_path: Path) -> Store:
    """A stream of which one segment is sealed, one rolled and one active."""
    store = small_store(tmp_path / "s")
    stream = store.stream("x")
    work(stream, 10)
    stream.seal()
    work(stream, 20)
    log_of(store).roll()
    work(stream, 30)
    return store


EVERYTHING = told(10) + told(20) + told(30)

# --- what it tells ----------------------------------------------------------------------------------------------------


def test_it_tells_who_was_given_what_and_what_became_of_it(tmp_path: Path) -> None:
    now = 1000
    with small_store(tmp_path, clock=lambda: now) as store:
        stream = store.stream("x")
        work(stream, 1)
        lsn = log_of(store).native.tail[2]
        assert [it for it in stream.audit() if it.action != "consumer"][-4:] == [
            AuditRecord(1000, lsn - 4, "deliver", b"g", b"a", EntryID(4, 0), 1, None),
            AuditRecord(1000, lsn - 3, "ack", b"g", None, EntryID(1, 0), None, b"a"),
            AuditRecord(1000, lsn - 2, "refuse", b"g", None, EntryID(2, 0), 1, b"a"),
            AuditRecord(1000, lsn, "claim", b"g", b"b", EntryID(3, 0), 2, b"a"),
        ]
        assert brief(stream.audit())[:2] == [("create", "0-0", None, None), ("consumer", None, b"a", None)]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda group: group.consumer("a").read("0", count=1), [("redeliver", "2-0", b"a", b"a")]),
        (lambda group: group.consumer("b").read(claim_ms=0, count=1), [("claim", "3-0", b"b", b"")]),
        (lambda group: group.delete_consumer("a"), [("drop", "2-0", None, b"a"), ("dismiss", None, b"a", None)]),
        (lambda group: group.ack_delete("2-0"), [("remove", "2-0", None, b"a"), ("delete", "2-0", None, None)]),
        (
            lambda group: group.stream.delete_entries("2-0", "4-0", ref="DELREF"),
            [("remove", "2-0", None, b"a"), ("delete", "4-0", None, None)],
        ),
        (lambda it: it.stream.trim(maxlen=2, ref="DELREF"), [("remove", "2-0", None, b"a"), ("trim", *(None,) * 3)]),
        (lambda group: group.consumer("a").read(noack=True), [("position", "4-0", None, None)]),
        (lambda group: group.set_id("1-0"), [("position", "1-0", None, None)]),
        (lambda group: group.destroy(), [("destroy", None, None, None)]),
        (lambda group: group.stream.add({"n": 1}, producer="p", message_id="m"), []),
        (lambda group: group.ack("9-0"), []),
    ],
)
def test_each_operation_has_its_word(
    tmp_path: Path, act: Callable[[Any], object], expected: list[Brief], sealed: bool
) -> None:
    with small_store(tmp_path) as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        stream.add_many([{"n": 1}] * 4, ids=["1-0", "2-0", "3-0", "4-0"])
        group.consumer("a").read(count=3)
        group.ack("1-0")
        group.nack("3-0")
        group.create_consumer("b")
        before = brief(stream.audit())
        act(group)
        if sealed:
            stream.seal()
        assert brief(stream.audit()) == before + expected


def test_a_group_set_back_delivers_again_what_others_have(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        work(store.stream("x"), 1)
        group = store.stream("x").group("g")
        group.set_id("0")
        group.consumer("b").read()
        given = [row for row in brief(store.stream("x").audit()) if row[0] == "deliver"][4:]
        assert sorted(given, key=lambda row: str(row[1])) == [
            ("deliver", "1-0", b"b", None),
            ("deliver", "2-0", b"b", b""),
            ("deliver", "3-0", b"b", b"b"),
            ("deliver", "4-0", b"b", b"a"),
        ]


def test_a_span_of_time_is_cut_out_of_all_of_it(tmp_path: Path) -> None:
    now = 0
    with small_store(tmp_path, clock=lambda: now) as store:
        stream = store.stream("x")
        for number in range(1, 9):
            now = 100 * number
            work(stream, 10 * number)
            if number in (3, 6):
                stream.seal()
        everything = list(stream.audit())
        for low, high in ((None, None), (300, 300), (250, 650), (None, 300), (700, None), (900, None), (500, 400)):
            wanted = [it for it in everything if (low or 0) <= it.time_ms <= (high if high is not None else 10**6)]
            assert list(stream.audit(low, high)) == wanted
        assert {it.time_ms for it in everything} == set(range(100, 900, 100))
        for wrong in (-1, "now", 1.5, True):
            with pytest.raises(ArgumentError):
                stream.audit(wrong)  # type: ignore[arg-type]  # refused: of a wrong kind
            with pytest.raises(ArgumentError):
                stream.audit_table(end_ms=wrong)  # type: ignore[arg-type]  # refused: of a wrong kind


def test_the_table_holds_the_same_as_the_records(layered: Store) -> None:
    stream = layered.stream("x")
    table = stream.audit_table().to_pylist()
    assert len(table) == len(list(stream.audit()))
    for row, it in zip(table, stream.audit(), strict=True):
        id_ = None if row["id_ms"] is None else EntryID(row.pop("id_ms"), row.pop("id_seq"))
        shown = {name: value for name, value in row.items() if name not in ("id_ms", "id_seq")}
        assert AuditRecord(**shown, id=id_) == it
    assert stream.audit_table(end_ms=0).num_rows == 0
    assert stream.audit_table(end_ms=0).column_names == stream.audit_table().column_names
    layered.close()


def test_a_stream_that_is_not_there_has_none(store: Store) -> None:
    assert list(store.stream("nothing").audit()) == []
    assert store.stream("nothing").audit_table().num_rows == 0


# --- where it lies ----------------------------------------------------------------------------------------------------


def test_it_runs_on_through_sealed_rolled_and_active_segments_and_openings(layered: Store) -> None:
    stream = layered.stream("x")
    assert audits(layered) == ["00000001.audit"]
    assert of_entries(stream.audit()) == EVERYTHING
    everything = list(stream.audit())
    assert [it.lsn for it in everything] == sorted(it.lsn for it in everything)
    stream.seal()
    assert audits(layered) == ["00000001.audit", "00000002.audit", "00000003.audit"]
    assert list(stream.audit()) == everything
    assert layered.verify().ok
    layered.close()
    with diskstream.open(layered.path) as again:
        assert list(again.stream("x").audit()) == everything
        assert again.recoveries == []


def test_names_from_before_the_first_frame_and_of_who_is_gone_are_known(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        stream = store.stream("x")
        work(stream, 1)
        stream.seal()
        stream.add({"n": 1}, "9-0")
        group = stream.group("g")
        group.ack("3-0")
        group.delete_consumer("b")
        group.destroy()
        stream.seal()
        stream.trim(maxlen=1)
        store.stream("x").seal()
        assert audits(store) == ["00000002.audit"]
        it = next(stream.audit())
        assert (it.group, it.action, it.owner_before) == (b"g", "ack", b"b")


def test_trimming_a_segment_away_takes_the_audit_of_its_time(layered: Store) -> None:
    stream = layered.stream("x")
    stream.seal()
    stream.trim(maxlen=8)
    assert of_entries(stream.audit()) == told(20) + told(30)
    layered.seal()
    assert audits(layered) == ["00000002.audit", "00000003.audit"]
    stream.trim(maxlen=0)
    layered.close()
    with small_store(layered.path) as again:
        assert audits(again) == []
        assert again.recoveries == []
        assert list(again.stream("x").audit()) == []


def test_compacting_segments_keeps_their_audit_until_the_output_is_trimmed_away(layered: Store) -> None:
    stream = layered.stream("x")
    stream.compact()
    log_of(layered).roll()
    stream.compact()
    assert [path.name for path in log_of(layered).directory.glob("*.seg")] == ["00000001.g2.seg"]
    assert len(audits(layered)) == 3
    assert of_entries(stream.audit()) == EVERYTHING
    assert layered.verify().ok
    layered.close()
    with small_store(layered.path) as again:
        assert of_entries(again.stream("x").audit()) == EVERYTHING
        again.stream("x").trim(maxlen=0)
        again.seal()
        assert audits(again) == []


@pytest.mark.parametrize("reopened", [False, True])
def test_a_segment_emptied_in_the_middle_leaves_no_gap(tmp_path: Path, reopened: bool) -> None:
    """A queue that deletes what it acknowledges, behind an entry that stays: logs go without being sealed."""
    store = small_store(tmp_path)
    stream = store.stream("x")
    work(stream, 10)
    stream.seal()
    work(stream, 20)
    stream.group("g").ack_delete("21-0", "22-0", "23-0")
    stream.delete("20-0")
    log_of(store).roll()
    everything = list(stream.audit())
    if reopened:
        store.close()
        store = small_store(tmp_path)
    store.seal()
    assert audits(store) == ["00000001.audit", "00000002.audit"]
    assert not log_of(store).directory.joinpath("00000002.log").exists()
    assert list(store.stream("x").audit()) == everything
    store.close()


def test_a_log_without_groups_gets_no_file(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        stream = store.stream("x")
        stream.add({"n": 1}, producer="p", message_id="m")
        stream.delete(stream.add({"n": 2}))
        stream.seal()
        assert audits(store) == []
        assert list(stream.audit()) == []


def test_it_can_be_switched_off_and_on(tmp_path: Path) -> None:
    """A segment sealed without, by this option or by an earlier version, is passed over without a word."""
    with small_store(tmp_path, audit=False) as store:
        work(store.stream("x"), 10)
        assert of_entries(store.stream("x").audit()) == told(10)
        store.stream("x").seal()
        assert audits(store) == []
        assert list(store.stream("x").audit()) == []
    with small_store(tmp_path) as store:
        work(store.stream("x"), 20)
        store.stream("x").seal()
        assert of_entries(store.stream("x").audit()) == told(20)
        assert store.verify().ok
    with pytest.raises(ArgumentError):
        small_store(tmp_path, audit="no")


@pytest.mark.parametrize("how", ["read only", "copy", "hard links"])
def test_it_is_read_from_a_store_open_for_reading_and_from_copies(layered: Store, tmp_path: Path, how: str) -> None:
    path = tmp_path / "copy"
    if how == "read only":
        path = layered.path
    else:
        layered.close()
        shutil.copytree(layered.path, path, copy_function=shutil.copy2 if how == "copy" else os.link)
    with diskstream.open(path, read_only=True) as looking:
        assert of_entries(looking.stream("x").audit()) == EVERYTHING
        if how == "read only":
            layered.stream("x").seal()
            assert of_entries(looking.stream("x").audit()) == EVERYTHING
    layered.close()


def test_it_ends_where_the_log_ended_when_it_began_whatever_happens_meanwhile(layered: Store) -> None:
    stream = layered.stream("x")
    running = stream.audit()
    found = [next(running)]
    work(stream, 40)
    stream.seal()
    stream.compact()
    found += running
    assert of_entries(found) == EVERYTHING
    running = stream.audit()
    found = [next(running)]
    stream.trim(maxlen=4)
    layered.seal()
    found += running
    assert of_entries(found)[: len(told(10))] == told(10)
    layered.close()


# --- nothing rests on it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:70] + b"\xff" + data[71:],
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: b"\0" * len(data),
    ],
)
def test_a_damaged_file_is_named_and_everything_else_goes_on(layered: Store, damage: Callable[[bytes], bytes]) -> None:
    layered.stream("x").seal()
    layered.close()
    path = layered.path / "streams" / "x" / "00000002.audit"
    path.write_bytes(damage(path.read_bytes()))
    with small_store(layered.path) as store:
        stream = store.stream("x")
        assert store.recoveries == []
        found: list[AuditRecord] = []
        with pytest.raises(CorruptionError) as caught:
            found.extend(stream.audit())
        assert str(path) in str(caught.value)
        assert of_entries(found) == told(10)
        assert [problem.path for problem in store.verify().problems] == [path]
        assert len(list(stream.range())) == 12
        assert len(stream.group("g").pending_range(count=100)) == 9
        work(stream, 40)
        stream.seal()
        stream.compact()
        stream.trim(maxlen=4)
        store.seal()


def test_a_file_of_another_stream_is_not_believed(layered: Store, tmp_path: Path) -> None:
    with small_store(tmp_path / "other") as other:
        work(other.stream("x"), 10)
        other.stream("x").seal()
    path = log_of(layered).directory / "00000001.audit"
    shutil.copy(tmp_path / "other" / "streams" / "x" / path.name, path)
    with pytest.raises(CorruptionError, match=path.name):
        list(layered.stream("x").audit())
    layered.stream("x").trim(maxlen=0)
    layered.close()
    with small_store(layered.path) as again:
        assert len(again.stream("x")) == 0
        assert audits(again) == [path.name], "whose it is cannot be told"


def test_without_its_files_a_stream_is_what_it_was(layered: Store) -> None:
    layered.stream("x").seal()
    layered.close()
    for path in layered.path.rglob("*.audit"):
        path.unlink()
    with small_store(layered.path) as store:
        assert store.recoveries == []
        assert store.verify().ok
        assert len(store.stream("x")) == 12
        assert list(store.stream("x").audit()) == []


class Full(Files):
    """A disk that has no room for audit files while `full`."""

    full = False

    def create(self, path: Path) -> NewFile:
        if self.full and ".audit" in path.name:
            raise DiskFullError(str(path), "create", errno.ENOSPC, "no room")
        return super().create(path)


def test_on_a_full_disk_a_log_is_not_sealed_without_its_audit(tmp_path: Path) -> None:
    files = Full()
    with small_store(tmp_path, files=files) as store:
        work(store.stream("x"), 10)
        files.full = True
        with pytest.raises(DiskFullError):
            store.stream("x").seal()
        assert log_of(store).directory.joinpath("00000001.log").exists()
        assert of_entries(store.stream("x").audit()) == told(10)
        files.full = False
        store.seal()
        assert audits(store) == ["00000001.audit"]
        assert of_entries(store.stream("x").audit()) == told(10)


def test_on_a_full_disk_a_log_that_is_empty_goes_all_the_same(tmp_path: Path) -> None:
    """What frees room must not need any."""
    files = Full()
    with small_store(tmp_path, files=files) as store:
        stream = store.stream("x")
        work(stream, 10)
        stream.seal()
        work(stream, 20)
        stream.delete("20-0", "21-0", "22-0", "23-0")
        files.full = True
        log_of(store).roll()
        store.seal()
        assert not log_of(store).directory.joinpath("00000002.log").exists()
        assert of_entries(stream.audit()) == told(10)


# --- killed -----------------------------------------------------------------------------------------------------------


class Copying(Files):
    """Copies the store before every step that changes its directory: what a process killed there leaves."""

    def __init__(self, root: Path, copies: Path) -> None:
        self.root, self.copies, self.armed = root, copies, False
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        if self.armed:
            shutil.copytree(self.root, self.copies / f"{len(self.steps)}", ignore=shutil.ignore_patterns("view"))
            self.steps.append(name)

    def create(self, path: Path) -> NewFile:
        self.step(f"create {Path(path.stem).suffix}")
        made, step = super().create(path), self.step

        class Watched(NewFile):
            def write(self, data: bytes) -> None:
                super().write(data[: len(data) // 2])
                step("write")
                super().write(data[len(data) // 2 :])

        made.__class__ = Watched
        return made

    def rename(self, source: Path, target: Path) -> None:
        self.step(f"rename {target.suffix}")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self.step(f"unlink {path.suffix}")
        super().unlink(path)

    def sync_dir(self, path: Path) -> None:
        self.step("sync_dir")
        super().sync_dir(path)


def test_killed_at_any_step_of_sealing_compacting_or_trimming_it_is_whole(tmp_path: Path) -> None:
    files = Copying(tmp_path / "s", tmp_path / "copies")
    store = small_store(tmp_path / "s", files=files)
    stream = store.stream("x")
    work(stream, 10)
    stream.seal()
    work(stream, 20)
    stream.group("g").ack_delete("20-0", "21-0", "22-0", "23-0")
    log_of(store).roll()
    work(stream, 30)
    everything = list(stream.audit())
    entries = [entry.id for entry in stream.range()]
    files.armed = True
    stream.seal()
    stream.compact()
    files.armed = False
    store.close()
    assert {"create .audit", "rename .audit", "rename .seg", "unlink .log"} <= set(files.steps)
    for number, step in enumerate(files.steps):
        with small_store(tmp_path / "copies" / f"{number}") as left:
            for _ in range(2):
                assert list(left.stream("x").audit()) == everything, (number, step)
                assert [entry.id for entry in left.stream("x").range()] == entries
                assert left.verify().ok
                left.stream("x").seal()
            assert [path for path in left.path.rglob("*.tmp") if path.parent != left.path] == []
