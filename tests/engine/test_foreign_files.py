"""Files that are another stream's, however well they fit: not believed, and nothing of ours goes on their word."""

import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, DiskstreamError, Store
from tests.engine.sample import SMALL, Row, build, files_of, rows
from tests.streams.layers import log_of


def whatever_is_read(store: Store) -> list[Row]:
    found: list[Row] = []
    try:
        for entry in store.stream("x").range():
            found += rows([entry])
    except CorruptionError:
        pass
    return found


def test_an_active_log_of_another_stream_removes_nothing(tmp_path: Path) -> None:
    """It lists none of the older segments, which that stream has trimmed away; ours are needed all the same."""
    samples = build(tmp_path / "s", "x", "y")
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("y").trim(maxlen=1)
    ours, theirs = (tmp_path / "s" / "streams" / name / "00000005.log" for name in ("x", "y"))
    backup = ours.read_bytes()
    shutil.copy(theirs, ours)
    before = files_of(ours.parent)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        there = whatever_is_read(store)
        assert there == samples["x"].live[: len(there)]
        try:
            store.stream("x").add({"n": "1"})
            raise AssertionError("an entry was added to another stream's log")
        except DiskstreamError as error:
            assert str(ours.parent) in str(error)
        assert [problem for problem in store.verify().problems if problem.stream == b"x"]
    after = files_of(ours.parent)
    assert {name: after.get(name) for name in before if name != "ctl"} == {
        name: data for name, data in before.items() if name != "ctl"
    }
    ours.write_bytes(backup)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert rows(store.stream("x").range()) == samples["x"].live


def test_an_older_copy_of_the_active_log_is_not_believed_against_what_came_after(tmp_path: Path) -> None:
    """A file restored from a backup, beside segments that were sealed since."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    log = tmp_path / "s" / "streams" / "x" / "00000001.log"
    old = log.read_bytes()
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for number in range(2, 5):
            stream.add({"n": number})
            stream.seal()
        live = rows(stream.range())
    (tmp_path / "s" / "streams" / "x" / "00000004.log").unlink()
    log.write_bytes(old)
    before = files_of(log.parent)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        try:
            there = rows(store.stream("x").range())
        except DiskstreamError as error:
            there = live
            assert str(log.parent) in str(error)
        assert there == live
        assert not store.verify().ok
    assert {name for name in before if name.endswith(".seg")} <= set(files_of(log.parent))


def test_files_that_nobody_knows_are_left_where_they_are(tmp_path: Path) -> None:
    samples = build(tmp_path / "s")
    strangers = {"notes.txt": b"mine", "1.log": b"x", "00000001.log.bak": b"y", "0000000a.seg": b"z", ".hidden": b""}
    for name, data in strangers.items():
        (tmp_path / "s" / "streams" / "x" / name).write_bytes(data)
        (tmp_path / "s" / "streams" / name).write_bytes(data)
        (tmp_path / "s" / name).write_bytes(data)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert store.streams() == [b"x"]
        assert rows(store.stream("x").range()) == samples["x"].live
        store.stream("x").seal()
        store.stream("x").compact()
        assert rows(store.stream("x").range()) == samples["x"].live
    for name, data in strangers.items():
        assert (tmp_path / "s" / "streams" / "x" / name).read_bytes() == data
        assert (tmp_path / "s" / "streams" / name).read_bytes() == data
        assert (tmp_path / "s" / name).read_bytes() == data


def test_a_stream_whose_name_cannot_be_read_is_reported_not_passed_over(tmp_path: Path) -> None:
    """The directory of a long name holds a digest only; the name stands in a file."""
    name = b"long name " * 100
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream(name).add({"n": "1"})
    (directory,) = (tmp_path / "s" / "streams").iterdir()
    data = bytearray((directory / "name").read_bytes())
    data[7] ^= 1
    (directory / "name").write_bytes(data)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert len(store.stream(name)) == 1, "who knows the name has it"
        problems = store.verify().problems
        assert [problem for problem in problems if directory in (problem.path, problem.path.parent)]


def test_whose_a_foreign_segment_is_can_be_read(tmp_path: Path) -> None:
    """The stream's uuid, as the other commands print it."""
    with diskstream.open(tmp_path / "s", seal="manual") as store:
        for name in ("a", "b"):
            for _ in range(2):
                store.stream(name).add({"n": 1})
                store.stream(name).seal()
        uuid = log_of(store, "a").native.uuid.hex()
        assert uuid != log_of(store, "b").native.uuid.hex()
    streams = tmp_path / "s" / "streams"
    shutil.copy(streams / "a" / "00000001.seg", streams / "b" / "00000001.seg")
    with diskstream.open(tmp_path / "s") as store, pytest.raises(CorruptionError, match=f"segment 1 of stream {uuid}"):
        list(store.stream("b").range())
