"""Reading what is damaged, as far as no JVM is needed for it: an error in our words, or what is sound and a report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError, DataLossError, EntryID
from diskstream.ids import MAX_ID
from tests.spark.test_read_options import options
from tests.spark.test_read_units import damage_index, ids, read
from tests.streams.layers import Layered, nth_id, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, list[str], list[str]]:
    """A store with a rotten node: its path, and the IDs outside of that node and within it."""
    with small_store(tmp_path / "s") as store:
        made = Layered(store, store.stream("x"))
        made.add(140)
        store.seal()
        made.add(20)
        number = made.stream.splits()[1].segment
        (segment,) = (store.path / "streams" / "x").glob(f"{number:08d}*.seg")
        pieces = [piece for piece in made.stream.splits(max_entries=1) if piece.segment == number]
        node = pieces[2]
    data = segment.read_bytes()
    # The third node: flip bytes one by one until just that one cannot be read.
    for at in range(200, len(data), 50):
        rotten = bytearray(data)
        rotten[at] ^= 0xFF
        segment.write_bytes(rotten)
        with diskstream.open(tmp_path / "s", read_only=True) as store:
            stream = store.stream("x")
            if len(unreadable(stream, pieces)) == 1 and unreadable(stream, pieces) == [node]:
                break
    else:
        pytest.fail("no byte of the third node was found")
    inside = {str(nth_id(number)) for number in range(160) if node.first <= nth_id(number) <= node.last}
    every = [str(nth_id(number)) for number in range(160)]
    return tmp_path / "s", [each for each in every if each not in inside], [each for each in every if each in inside]


def unreadable(stream: Any, pieces: list[Any]) -> list[Any]:
    found = []
    for piece in pieces:
        try:
            list(stream.range(piece.first, piece.last))
        except CorruptionError:
            found.append(piece)
    return found


@pytest.mark.parametrize("lease", ["true", "false"])
def test_damage_ends_a_read_and_what_came_before_was_right(
    damaged: tuple[Path, list[str], list[str]], lease: str
) -> None:
    path, outside, inside = damaged
    batches = read(options(path=path, batchRows=1, lease=lease))
    found: list[str] = []
    with pytest.raises(CorruptionError, match=r"\.seg"):
        for batch in batches:
            found += batch["id"].to_pylist()
    assert found == outside[: outside.index(found[-1]) + 1]
    assert EntryID(*map(int, found[-1].split("-"))) < EntryID(*map(int, inside[0].split("-")))


@pytest.mark.parametrize("lease", ["true", "false"])
@pytest.mark.parametrize("batch_rows", [1, 10_000])
def test_damage_may_be_skipped_and_is_reported_to_the_node(
    damaged: tuple[Path, list[str], list[str]], tmp_path: Path, lease: str, batch_rows: int
) -> None:
    path, outside, inside = damaged
    report = tmp_path / "reports" / "of this read"
    given = options(path=path, lease=lease, onCorruption="skip", corruptionPath=report, batchRows=batch_rows)
    assert ids(given) == [f"x {each}" for each in outside]
    (told,) = (json.loads(file.read_text()) for file in report.iterdir())
    assert told["stream"] == "x"
    assert ".seg" in told["error"]
    first, last = (EntryID(*map(int, told[end].split("-"))) for end in ("first", "last"))
    skipped = [str(nth_id(number)) for number in range(160) if first <= nth_id(number) <= last]
    assert skipped == inside


@pytest.mark.parametrize("lease", ["true", "false"])
def test_damage_may_be_skipped_where_a_trim_has_ended_in_it(
    damaged: tuple[Path, list[str], list[str]], tmp_path: Path, lease: str
) -> None:
    """Up to which ID that was nobody can say, so that the read ended, and any other of the stream."""
    path, outside, inside = damaged
    before = [each for each in outside if int(each.split("-")[0]) < int(inside[0].split("-")[0])]
    with small_store(path) as store:
        store.stream("x").trim(maxlen=160 - len(before) - 2)
        with pytest.raises(CorruptionError):
            store.stream("x").trimmed_to()
        assert str(store.stream("x").trimmed_to(damaged=True)) == inside[0]
        assert (store.stream("x").trimmed_to(inside[-1]) or EntryID(0, 1)) < EntryID(*map(int, inside[0].split("-")))
    kept = [f"x {each}" for each in outside[len(before) :]]
    report = tmp_path / "report"
    given = {"path": path, "lease": lease, "onCorruption": "skip"}
    assert ids(options(**given, corruptionPath=report)) == kept
    (told,) = (json.loads(file.read_text()) for file in report.iterdir())
    assert told["last"] == inside[-1]
    assert ids(options(**given, startingIds=inside[1])) == kept
    with pytest.raises(DataLossError, match=f"entries up to {inside[0]} were trimmed"):
        ids(options(**given, startingIds=before[0]))


@pytest.mark.parametrize("lease", ["true", "false"])
@pytest.mark.parametrize("how", ["rotten", "missing"])
def test_a_segment_that_cannot_be_opened_is_skipped_alone(tmp_path: Path, lease: str, how: str) -> None:
    with small_store(tmp_path / "s") as store:
        Layered(store, store.stream("x")).add(140)
        store.seal()
        store.stream("x").trim(maxlen=138)
        victim = store.stream("x").splits()[1]
        every = [str(entry.id) for entry in store.stream("x")]
        inside = [str(entry.id) for entry in store.stream("x").range(victim.first, victim.last)]
    if how == "rotten":
        damage_index(tmp_path / "s")
    else:
        sorted((tmp_path / "s" / "streams" / "x").glob("*.seg"))[1].unlink()
    report = tmp_path / "report"
    given = options(path=tmp_path / "s", lease=lease, onCorruption="skip", corruptionPath=report, minPartitions=4)
    assert ids(given) == [f"x {each}" for each in every if each not in inside]
    (told,) = (json.loads(file.read_text()) for file in report.iterdir())
    assert (told["first"], told["last"]) == (str(victim.first), str(victim.last))
    with pytest.raises(CorruptionError):
        ids(options(path=tmp_path / "s", lease=lease))


def test_a_log_that_is_damaged_ends_a_read_and_is_read_up_to_there_where_that_is_wanted(tmp_path: Path) -> None:
    """Without a lease it ended there in silence."""
    with small_store(tmp_path / "s") as store:
        Layered(store, store.stream("x")).add(15)
        (log,) = (store.path / "streams" / "x").glob("*.log")
    data = bytearray(log.read_bytes())
    data[4096 + (len(data.rstrip(b"\0")) - 4096) // 2] ^= 0xFF
    log.write_bytes(data)
    for lease in ("true", "false"):
        with pytest.raises(CorruptionError, match=r"\.log: frame"):
            ids(options(path=tmp_path / "s", lease=lease))
        found = ids(options(path=tmp_path / "s", lease=lease, onCorruption="skip"))
        assert found == [f"x {nth_id(number)}" for number in range(len(found))]
        assert 2 < len(found) < 13


@pytest.mark.parametrize("lease", ["true", "false"])
def test_a_stream_that_does_not_open_is_skipped_alone_and_reported(tmp_path: Path, lease: str) -> None:
    with small_store(tmp_path / "s") as store:
        for name in ("a", "x", "z"):
            Layered(store, store.stream(name)).add(15)
        (log,) = (store.path / "streams" / "x").glob("*.log")
    data = bytearray(log.read_bytes())
    data[20] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(CorruptionError, match=r"x/.*\.log: log header"):
        ids(options(path=tmp_path / "s", lease=lease))
    report = tmp_path / "report"
    bounds = {"startingIds": json.dumps({"a": "earliest", "x": "1-1", "z": "earliest"})}
    for more in ({}, {"minPartitions": 4}, bounds):
        given = options(path=tmp_path / "s", lease=lease, onCorruption="skip", corruptionPath=report, **more)
        assert ids(given) == [f"{name} {nth_id(number)}" for name in "az" for number in range(15)]
        (told,) = (json.loads(file.read_text()) for file in report.iterdir())
        assert (told["stream"], told["last"]) == ("x", str(MAX_ID))
        assert "log header" in told["error"]
        shutil.rmtree(report)
