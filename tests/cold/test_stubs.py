"""Stubs are what docs/format/cold.md says; a wrong byte in one is an error, and none leads to another stream's data."""

import dataclasses
import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream import Stream
from diskstream.cold import adopt, bring_back, move_out
from diskstream.cold_segments import Stub, segments_of
from diskstream.engine import cold
from diskstream.engine.files import Files
from diskstream.errors import CorruptionError, NewerFormatError, RemoteError
from tests.cold.world import ENTRIES, SMALL, filled, names_in, opened, rows, where
from tests.slow_reader.cold import read_stub


def stub_path(stream: Stream, number: int = 2) -> Path:
    return stream._store.path / "streams" / "x" / f"{number:08d}.cold"


def test_the_slow_reader_reads_every_stub(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    for each in segments_of(stream)[:-1]:
        stub = read_stub(stub_path(stream, each.number))
        assert each.stub is not None
        assert (stub.number, stub.generation, stub.entries) == (each.number, each.generation, each.entries)
        assert (stub.first, stub.last) == ((each.first.ms, each.first.seq), (each.last.ms, each.last.seq))
        assert (stub.url, stub.path, stub.sha256) == (folder_place, each.stub.path, each.stub.sha256)
        assert (tmp_path / "place" / stub.path).stat().st_size == stub.size_bytes


def test_every_flipped_byte_of_a_stub_is_an_error(stream: Stream, folder_place: str) -> None:
    move_out(stream, folder_place, before="50")
    path = stub_path(stream)
    data = path.read_bytes()
    for at in range(len(data)):
        with pytest.raises((CorruptionError, NewerFormatError)):
            cold.unpacked(path, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
    for size in range(len(data)):
        with pytest.raises(CorruptionError):
            cold.unpacked(path, data[:size])
    with pytest.raises(CorruptionError):
        cold.unpacked(path, data + b"\0")


def forged(stream: Stream, **changes: object) -> None:
    stub = cold.read(stub_path(stream))
    assert stub is not None
    found = dataclasses.replace(stub, **changes)  # type: ignore[arg-type]  # a field of it, of its kind
    stub_path(stream).write_bytes(found.packed())


def planted(stream: Stream, tmp_path: Path) -> dict[str, dict[str, object]]:
    other = filled(stream._store, "other")
    move_out(other, f"file://{tmp_path}/place", older_than_ms=0)
    theirs = segments_of(other)[1].stub
    assert theirs is not None
    return {
        "another file": {"url": "file:///etc", "path": "passwd", "size_bytes": Path("/etc/passwd").stat().st_size},
        "a way out of the place": {"path": "../../etc/passwd"},
        "a device": {"url": "file:///dev", "path": "zero"},
        "another stream": {"uuid": theirs.uuid},
        "another stream's object": {"path": theirs.path, "sha256": theirs.sha256, "size_bytes": theirs.size_bytes},
        "another segment": {"number": 3},
        "another generation": {"generation": 1},
        "other entries": {"entries": 1},
        "another size": {"size_bytes": 1 << 60},
        "another digest": {"sha256": bytes(32)},
        "a password": {"url": "s3://key:secret@bucket/x"},
        "another scheme": {"url": "http://secret.example/x"},
        "no text": {"url": ""},
    }


def test_a_stub_that_was_planted_gives_nothing_away(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    move_out(stream, folder_place, before="50")
    whole = stub_path(stream).read_bytes()
    for what, changes in planted(stream, tmp_path).items():
        forged(stream, **changes)
        with opened(stream._store.path) as store:
            with pytest.raises((CorruptionError, RemoteError)) as refused:
                rows(store.stream("x"), "15", "30")
            assert "secret" not in str(refused.value), what
            assert rows(store.stream("x"), "60", "+"), what
            assert not store.verify(cold=True).ok, what
        stub_path(stream).write_bytes(whole)
    with opened(stream._store.path) as store:
        assert len(rows(store.stream("x"))) == ENTRIES


def test_what_a_crash_leaves_is_put_right(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    """A stub and its segment both there; one of a segment that is dropped; an unfinished one; another stream's."""
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    stubs = {each.number: stub_path(stream, each.number).read_bytes() for each in segments_of(stream)[:-1]}
    bring_back(stream)
    stream.trim(minid="50")
    stream._store.seal()
    home = stub_path(stream).parent
    stream._store.close()
    listed = {int(name.split(".")[0]) for name in names_in(home, ".seg")}
    gone = sorted(set(stubs) - listed)
    assert gone
    for number, data in stubs.items():
        (home / f"{number:08d}.cold").write_bytes(data)
    (home / "00000009.cold.tmp").write_bytes(b"unfinished")
    (home / "00000009.g7.cold").write_bytes(stubs[9])
    with opened(tmp_path / "store") as store:
        again = store.stream("x")
        assert rows(again) == before[49:]
        findings = {finding.path.name: finding.kind for finding in store.recoveries[0].findings}
        assert findings == {
            **{f"{number:08d}.cold": "dropped" for number in gone},
            "00000009.cold.tmp": "unfinished",
            "00000009.g7.cold": "unknown",
        }
        assert store.verify(cold=True).ok
        # The segments count where both are there, and moving again takes them away.
        assert "cold" not in where(again)
        move_out(again, folder_place, older_than_ms=0)
        assert rows(again) == before[49:]
    shutil.rmtree(tmp_path / "place")
    with opened(tmp_path / "store") as store:
        assert store.recoveries == []


def test_a_stub_of_another_stream_is_left_alone_and_refused(stream: Stream, folder_place: str) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    other = filled(stream._store, "other")
    move_out(other, folder_place, older_than_ms=0)
    path = stream._store.path / "streams" / "other" / "00000002.cold"
    stream._store.close()
    shutil.copyfile(stub_path(stream), path)
    with opened(stream._store.path) as store:
        assert len(store.stream("other")) == ENTRIES
        with pytest.raises(CorruptionError, match="stub of a cold segment"):
            rows(store.stream("other"))
        assert [problem.path for problem in store.verify().problems] == [path]
        assert path.read_bytes() == stub_path(store.stream(stream.name)).read_bytes()


# --- stubs made anew --------------------------------------------------------------------------------------------------


def test_lost_and_damaged_stubs_are_made_anew_from_the_catalogue(stream: Stream, place: str) -> None:
    before = rows(stream)
    move_out(stream, place, older_than_ms=0)
    stream._store.close()
    stub_path(stream, 2).unlink()
    stub_path(stream, 4).write_bytes(b"")
    with opened(stream._store.path) as store:
        again = store.stream("x")
        assert where(again)[:5] == ["cold", "missing", "cold", "missing", "cold"]
        assert len(store.verify().problems) == 2
        assert [each.number for each in adopt(again, place, dry_run=True).adopted] == [2, 4]
        assert where(again).count("missing") == 2
        report = adopt(again, place)
        assert [each.number for each in report.adopted] == [2, 4]
        assert not report.missing
        assert rows(again) == before
        assert store.verify(cold=True).ok


def test_what_the_catalogue_says_is_not_believed(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    report = move_out(stream, folder_place, older_than_ms=0)
    first, second = (tmp_path / "place" / each.path for each in report.segments[1:3])
    records = sorted((tmp_path / "place").rglob("catalogue/*/*.json"))
    stream._store.close()
    for number in (2, 3, 4):
        stub_path(stream, number).unlink()
    first.write_bytes(second.read_bytes()[: first.stat().st_size].ljust(first.stat().st_size, b"\0"))
    records[2].write_bytes(records[2].read_bytes()[:-10])
    with opened(stream._store.path) as store:
        found = adopt(store.stream("x"), folder_place)
        assert [each.number for each in found.adopted] == [4]
        assert [each.number for each in found.missing] == [2, 3]
        assert len(found.refused) == 1


def test_what_another_copy_of_the_store_put_is_not_taken_for_its_own(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    """The first object with as many entries between the same IDs was, and reads gave what was never added here."""
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.close()
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("ctl", "view"))
    for number, name in enumerate(("copy", "store")):
        with opened(tmp_path / name, clock=lambda number=number: 1_000_000 + number) as store:
            for entry in range(ENTRIES + 1, ENTRIES + 41):
                store.stream("x").add({"n": name.ljust(5), "pad": f"{entry:03d}" * 80}, f"{entry}-0")
            store.seal()
            move_out(store.stream("x"), folder_place, older_than_ms=0)
    with opened(tmp_path / "store") as store:
        before = rows(store.stream("x"))
    newest = max((tmp_path / "store" / "streams" / "x").glob("*.cold"))
    newest.unlink()
    with opened(tmp_path / "store") as store:
        report = adopt(store.stream("x"), folder_place)
        assert [each.number for each in report.adopted] == [int(newest.stem)]
        assert rows(store.stream("x")) == before
    assert "it is of another copy of this store" in "".join(report.refused)


def test_a_copy_of_the_stream_without_its_cold_segments_is_made_whole(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.close()
    ignored = shutil.ignore_patterns("*.cold", "cold-cache", "ctl", "view")
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=ignored)
    with diskstream.open(tmp_path / "copy", **SMALL) as store:
        assert adopt(store.stream("x"), folder_place).missing == []
        assert rows(store.stream("x")) == before


def test_a_stub_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    ids = diskstream.EntryID(1, 0), diskstream.EntryID(2, 0)
    stub = Stub(bytes(16), 1, 0, 1, *ids, "file:///x", "a/b.seg", 1, bytes(32), 0)

    class Failing(Files):
        def rename(self, source: Path, target: Path) -> None:
            raise diskstream.StorageError(str(source), "rename", 5, "the disk said no")

    cold.write(tmp_path, stub, Files())
    with pytest.raises(diskstream.StorageError):
        cold.write(tmp_path, dataclasses.replace(stub, entries=9), Failing())
    assert cold.read(tmp_path / "00000001.cold") == stub
    assert names_in(tmp_path, ".tmp") == []
