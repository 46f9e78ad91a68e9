"""`diskstream demo`: what it promises it has measured, and what it finds amiss ends it."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.cli.demo.board import STREAMS
from diskstream.cli.demo.group import GROUP, MEMBERS, RESULTS, SHARED, VICTIM, Member, account
from diskstream.cli.demo.phases import Fed, Killed, reopen
from diskstream.cli.demo.pipeline import what_is_missing
from diskstream.cli.demo.readers import Ranged, Tailed
from diskstream.cli.demo.sequence import OutOfSequenceError, SequenceCheck, last_number
from diskstream.cli.failure import Failure
from diskstream.cli.telemetry import ALL, PROC
from tests.spark import quick_java

needs_proc = pytest.mark.skipif(
    not all((PROC / telemetry.file).is_file() for telemetry in ALL), reason="needs the files of Linux's /proc"
)


@needs_proc
def test_a_short_run_feeds_kills_recovers_shares_and_reports(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    result = CliRunner().invoke(main, ["demo", "--no-spark", "--dir", str(directory), "--seconds", "1", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert {"cpu", "memory", "network"} <= {stream["stream"] for stream in report["streams"]} <= set(STREAMS)
    assert set(report["killed"]["acknowledged"]) == {"cpu", "memory"}
    assert all(report["reopened"]["numbers"][name] >= n for name, n in report["killed"]["acknowledged"].items())
    with diskstream.open(directory, read_only=True) as store:
        for stream in report["streams"]:
            opened = store.stream(stream["stream"])
            check = SequenceCheck(stream["stream"], after=0)
            for entry in opened.range():
                check(entry)
            fed_on = report["group"]["entries"] if stream["stream"] == SHARED else stream["entries"]
            assert check.last == fed_on == len(opened) >= stream["entries"]
            assert 0 < stream["disk_bytes"] < stream["raw_bytes"]
            assert min(stream["appends_per_s"], stream["reads_per_s"], stream["seek_us"]) > 0
        check_group(store, report["group"])


def check_group(store: diskstream.Store, shared: dict[str, Any]) -> None:
    """What the demo says of the group, against what the store says."""
    members = {member["name"]: member for member in shared["members"]}
    assert tuple(members) == MEMBERS
    assert [name for name, member in members.items() if member["held"]] == [VICTIM]
    assert sum(member["processed"] for member in members.values()) == shared["entries"]
    assert members[VICTIM]["claimed"] == 0
    assert sum(member["claimed"] for member in members.values()) >= members[VICTIM]["held"]
    info = store.stream(SHARED).group(GROUP).info()
    assert (info.consumers, info.pending, info.lag, info.entries_read) == (len(MEMBERS), 0, 0, shared["entries"])
    again = Counter(int(line["n"]) for line in store.stream(RESULTS).range() if line["deliveries"] != b"0")
    assert again.total() == sum(member["claimed"] for member in members.values())
    done = Counter(int(line["n"]) for line in store.stream(RESULTS).range())
    assert set(done) == set(range(1, shared["entries"] + 1))
    assert all(times <= 1 + again[number] for number, times in done.items())
    assert sum(done.values()) - len(done) == sum(member["repeated"] for member in members.values())


@needs_proc
@pytest.mark.skipif(what_is_missing() is not None, reason=f"Spark cannot run: {what_is_missing()}")
@pytest.mark.timeout(600)
def test_it_ends_with_spark_which_reads_what_is_still_written(tmp_path: Path) -> None:
    """In a process of its own: no JVM is left beside the tests that come after."""
    words = ["demo", "--spark", "--dir", str(tmp_path / "store"), "--seconds", "0.3", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from diskstream.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=os.environ | {"SPARK_SUBMIT_OPTS": quick_java.options()},
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)["spark"]
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        assert 0 < made["live"] <= made["entries"] == len(store.stream(made["stream"]))
    assert made["entries"] == made["archived"] == made["compared"]
    assert made["windows"] == made["seconds_of_time"] > 0
    assert Path(made["chart"]).read_bytes().startswith(b"\x89PNG")
    assert Path(made["rollup"]).exists()


@needs_proc
def test_it_goes_on_in_a_store_that_it_left(tmp_path: Path) -> None:
    words = ["demo", "--no-spark", "--dir", str(tmp_path / "store"), "--seconds", "0.3", "--json"]
    first, second = (CliRunner().invoke(main, words) for _ in range(2))
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    before, after = (json.loads(result.stdout)["group"] for result in (first, second))
    assert sum(member["processed"] for member in after["members"]) == after["entries"] > before["entries"]


@needs_proc
def test_for_people_it_prints_tables_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = CliRunner().invoke(main, ["demo", "--no-spark", "--seconds", "0.5"])
    assert result.exit_code == 0, result.output
    for text in ("was killed", "Recovery, on reopening", "Sealed", "appends/s", "Consumer group", "killed holding"):
        assert text in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_telemetry_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskstream.cli.demo.PROC", tmp_path)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert "error: this machine has no" in result.stderr


def numbered(stream: diskstream.Stream, *numbers: int) -> None:
    for number in numbers:
        stream.add({"n": number, "monotonic_ns": 0})


def test_a_gap_a_repeat_and_a_step_back_are_noticed(store: diskstream.Store) -> None:
    stream = store.stream("cpu")
    numbered(stream, 1, 2, 4, 4)
    one, two, four, again = stream.range()
    check = SequenceCheck("cpu", after=0)
    check(one)
    check(two)
    with pytest.raises(OutOfSequenceError, match="number 4 after number 2"):
        check(four)
    later = SequenceCheck("cpu")
    later(four)
    with pytest.raises(OutOfSequenceError, match="number 4 after number 4"):
        later(again)
    with pytest.raises(OutOfSequenceError, match="number 2 after number 0"):
        SequenceCheck("cpu", after=0)(two)
    backwards = SequenceCheck("cpu")
    backwards(two)
    backwards.last = 0
    with pytest.raises(OutOfSequenceError, match=f"{one.id} comes after {two.id}"):
        backwards(one)


def test_numbers_go_on_from_the_newest_entry(store: diskstream.Store) -> None:
    assert last_number(store.stream("cpu")) == 0
    numbered(store.stream("cpu"), 1, 2)
    assert last_number(store.stream("cpu")) == 2


def fed(*, tailed: int = 0, acknowledged: int = 0, pending: int = 0) -> Fed:
    killed = Killed(kills=1, in_append=True, pending=pending, acknowledged={"cpu": acknowledged})
    return Fed(1.0, Tailed(numbers={"cpu": tailed}), Ranged(), killed)


def test_recovery_may_keep_all_or_nothing_of_the_append_that_was_cut_off(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        numbered(store.stream("cpu"), 1, 2, 3, 4, 5)
    assert reopen(tmp_path / "store", fed(tailed=5, acknowledged=5, pending=32)).numbers == {"cpu": 5}
    assert reopen(tmp_path / "store", fed(tailed=3, acknowledged=2, pending=3)).numbers == {"cpu": 5}


@pytest.mark.parametrize(
    ("promised", "message"),
    [
        (fed(acknowledged=7, pending=32), "7 entries were acknowledged, 2 of them are lost"),
        (fed(acknowledged=4, pending=32), "1 entries of an append of 32 were kept: it was torn"),
        (fed(tailed=6, acknowledged=5, pending=32), "the tailing process read 6 entries, 5 are left"),
    ],
)
def test_a_recovery_that_breaks_a_promise_ends_the_demo(tmp_path: Path, promised: Fed, message: str) -> None:
    with diskstream.open(tmp_path / "store") as store:
        numbered(store.stream("cpu"), 1, 2, 3, 4, 5)
    with pytest.raises(Failure, match=message):
        reopen(tmp_path / "store", promised)


def test_each_line_of_the_workers_is_counted_once() -> None:
    one, two, three = MEMBERS
    lines = [(1, one, 0), (2, two, 0), (3, two, 0), (3, one, 1), (4, one, 1), (3, three, 2), (5, three, 0)]
    assert account(range(1, 6), iter(lines)) == [
        Member(one, processed=2, claimed=2, repeated=1),
        Member(two, processed=2),
        Member(three, processed=1, claimed=1, repeated=1),
    ]


def test_one_that_was_slow_may_come_after_the_one_who_claimed_its_entry() -> None:
    one, two, three = account([7], iter([(7, MEMBERS[0], 1), (7, MEMBERS[1], 0)]))
    assert (one.processed, one.claimed, one.repeated) == (1, 1, 0)
    assert (two.processed, two.claimed, two.repeated) == (0, 0, 1)
    assert three == Member(MEMBERS[2])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([(1, MEMBERS[0], 0), (3, MEMBERS[0], 0)], "1 entries were processed by nobody, the first has number 2"),
        ([(1, MEMBERS[0], 0), (1, MEMBERS[1], 0)], "entry 1 of stream cpu was given to two workers"),
        ([(4, MEMBERS[0], 0)], "worker-1 processed an entry with number 4, which stream cpu does not have"),
    ],
)
def test_a_group_that_leaves_out_doubles_or_makes_up_ends_the_demo(
    lines: list[tuple[int, str, int]], message: str
) -> None:
    with pytest.raises(Failure, match=message):
        account(range(1, 4), iter(lines))
