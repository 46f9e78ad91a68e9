"""Staged files: frames with a checksum; what earlier versions staged is appended; what is damaged is not."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

import diskstream
from diskstream import ArgumentError, StorageError
from diskstream._native import PackedRows
from diskstream.arrow_rows import pack
from diskstream.errors import LimitError
from diskstream.spark import passed, staging
from diskstream.spark.commit import Manifest
from diskstream.spark.merging import ordered
from diskstream.spark.staged_reading import StagedFiles, frames_of, unpacked
from tests.spark.staged_rows import GIVEN, SMALL, TO_TWO, committed, left, numbers, staged, staged_before, with_ids


@pytest.fixture
def at(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "at", **SMALL):
        pass
    return tmp_path / "at"


def test_a_task_stages_the_frames_that_the_log_will_hold(at: Path) -> None:
    (file,) = staged(at, [1, 2, 3], target=GIVEN, rows=100)
    found = StagedFiles(at).batch(file.path, 0, 3)
    assert isinstance(found, list)
    assert [each.to_bytes() for each in found] == [each.to_bytes() for each in pack(with_ids([1, 2, 3]), "columns")]


def test_a_commit_packs_nothing_that_tasks_have_packed(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = staged(at, [1, 2, 3], [4, 5, 6], [7, 8, 9], target=GIVEN)

    def refused(*_given: object) -> list[PackedRows]:
        raise AssertionError("packed again")

    monkeypatch.setattr("diskstream.spark.packing.pack", refused)
    assert committed(at, Manifest("query:q", 0, True, files))
    assert numbers(at) == [*range(1, 10)]


def test_frames_give_their_rows_back_with_ids_names_and_values(at: Path) -> None:
    """Names that repeat, values of no text, IDs that Spark has as negative numbers."""
    pairs = pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))
    fields = [[(b"a", b""), (b"a", b"\xff\0")], [("\u00e9".encode(), b"1")]]
    columns = {
        "id_ms": pa.array([5, 2**64 - 1], pa.uint64()),
        "id_seq": pa.array([0, 2**64 - 2], pa.uint64()),
        "fields": pa.array([[{"name": n, "value": v} for n, v in row] for row in fields], pairs),
    }
    batch = pa.record_batch(columns)
    assert unpacked(pack(batch, "columns")) == batch


@pytest.mark.parametrize("parts", [[[1, 2, 3], [4, 5]], [[1, 3, 5], [2, 4]]], ids=["one after another", "merged"])
def test_what_an_earlier_version_has_staged_is_appended(at: Path, parts: list[list[int]]) -> None:
    files = tuple(staged_before(at, number, with_ids(part), "x") for number, part in enumerate(parts))
    assert committed(at, Manifest("query:q", 0, True, files))
    assert (numbers(at), left(at)) == ([1, 2, 3, 4, 5], [])


def test_rows_staged_before_and_now_are_merged(at: Path) -> None:
    """A driver that was replaced while its tasks were at work."""
    before = staged_before(at, 7, pa.record_batch({"id_ms": [2, 4], "id_seq": [0, 0], "n": ["2", "4"]}), "x")
    assert committed(at, Manifest("query:q", 0, True, (before, *staged(at, [1, 3, 5], target=GIVEN))))
    assert numbers(at) == [1, 2, 3, 4, 5]


def test_no_bit_of_a_staged_file_gives_other_rows_and_no_part_of_it_fewer(at: Path) -> None:
    """Rows by columns had no checksum: a bit that a disk had changed was appended."""
    (file,) = staged(at, [1, 2, 3], target=GIVEN)
    path, sound = at / file.path, (at / file.path).read_bytes()
    for bit in range(len(sound) * 8):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(changed)
        with pytest.raises(StorageError, match="what a task staged is damaged"):
            StagedFiles(at).batch(file.path, 0, 3)
    for end in range(len(sound)):
        path.write_bytes(sound[:end])
        with pytest.raises(StorageError, match="what a task staged is damaged"):
            StagedFiles(at).batch(file.path, 0, 3)


def test_a_batch_of_another_number_of_rows_is_damaged(at: Path) -> None:
    (file,) = staged(at, [1, 2, 3], target=GIVEN)
    with pytest.raises(StorageError, match="a batch has 3 rows, and had 4"):
        StagedFiles(at).batch(file.path, 0, 4)


def test_damage_is_said_at_the_commit_and_nothing_of_the_batch_is_added(at: Path) -> None:
    (file,) = staged(at, [1, 2, 3], target=GIVEN)
    path = at / file.path
    sound = path.read_bytes()
    place = sound.index(pack(with_ids([1, 2, 3]), "columns")[0].to_bytes()) + 50
    path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
    with pytest.raises(StorageError, match="what a task staged is damaged"):
        committed(at, Manifest("query:q", 0, True, (file,)))
    assert numbers(at) == []
    path.write_bytes(sound)
    committed(at, Manifest("query:q", 0, True, (file,)))
    assert numbers(at) == [1, 2, 3]


def test_long_rows_are_several_frames_of_one_batch(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(batch: pa.RecordBatch, ids: str) -> list[PackedRows]:
        return [frame for row in range(batch.num_rows) for frame in pack(batch.slice(row, 1), ids)]

    monkeypatch.setattr(staging, "pack", short)
    files = staged(at, [1, 2, 3], target=GIVEN)
    with diskstream.open(at) as store:
        ((_, (batch,)),) = ordered(store, files, given=True, check=True)
        assert [frame.rows for frame in frames_of(batch.read(), "columns")] == [1, 1, 1]
        # Of which row on nothing could be added is told by its ID, in whichever frame it is.
        assert [str(passed._id_of([batch], row)) for row in range(3)] == ["1-0", "2-0", "3-0"]
    assert committed(at, Manifest("query:q", 0, True, files))
    assert numbers(at) == [1, 2, 3]


def test_rows_that_can_be_no_entry_are_refused_by_the_task(at: Path) -> None:
    batch = pa.record_batch({"stream": ["x"], "n": pa.array([None], pa.int64())})
    with pytest.raises(ArgumentError, match=r"^a row for stream x cannot be an entry: it has no field"):
        staging.stage(at, ("job", 0), [batch], TO_TWO, 10)
    assert left(at) == []


def test_a_row_that_is_refused_is_named_by_its_id_where_it_has_one(at: Path) -> None:
    """Its number within a batch of its stream, of which nobody knows where it began, was all that was said."""
    batch = with_ids([7, 5, 6])
    batch = batch.set_column(2, "n", pa.array([1, None, None], pa.int64()))
    with pytest.raises(ArgumentError, match=r"^a row for stream x, with the ID 5-0, cannot be an entry: it has no fi"):
        staging.stage(at, ("job", 0), [batch], GIVEN, 10)
    first = batch.set_column(0, "id_ms", pa.array([7, 0, 6], pa.int64()))
    with pytest.raises(ArgumentError, match=r"^a row for stream x, with the ID 0-0, cannot be an entry: .*0-0$"):
        staging.stage(at, ("job", 0), [first.set_column(2, "n", batch["id_ms"])], GIVEN, 10)


def test_a_row_that_is_too_large_is_told_with_its_stream(at: Path) -> None:
    large = pa.record_batch({"stream": ["a%b"], "n": ["." * (33 << 20)]})
    with pytest.raises(LimitError, match="entry for stream a%25b of 34603014, over the limit of 33554432") as raised:
        staging.stage(at, ("job", 0), [large], TO_TWO, 10)
    assert raised.value.limit == 32 << 20
