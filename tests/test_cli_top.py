"""`diskstream top`: what a store is doing, as far as two looks can tell."""

import errno
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.cli.top.pulse import Pulse, _between, _look
from diskstream.cli.top.screen import ORDERS, screen
from diskstream.engine import names
from diskstream.engine.peek import peek
from diskstream.vitals import Vitals
from tests.terminal import shown_on_a_terminal

PROGRAM = "import sys; from diskstream.cli import main; main(sys.argv[1:], prog_name='diskstream')"


@pytest.fixture
def jobs(store: diskstream.Store) -> diskstream.Stream:
    """A stream of ten entries, of which group `g` gave four to `ann`, and one was acknowledged."""
    stream = store.stream("jobs")
    stream.add_many([{"n": n} for n in range(10)])
    given = stream.create_group("g", "0").consumer("ann").read(count=4)
    given[0].ack()
    return stream


def top(store: diskstream.Store, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["top", *words, "-d", str(store.path)])
    assert done.exit_code == code, done.output
    return done


def looked(store: diskstream.Store) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(top(store, "--once", "-i", "50ms", "--json").stdout)
    return facts


def test_it_tells_lengths_groups_and_who_is_slow(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    facts = looked(store)
    (stream,) = facts["streams"]
    assert (stream["stream"], stream["length"], stream["state"], stream["groups"]) == ("jobs", 10, "ok", 1)
    assert (stream["lag"], stream["pending"], stream["entries_per_s"]) == (6, 3, 0.0)
    (group,) = facts["groups"]
    assert (group["group"], group["lag"], group["pending"], group["consumers"]) == ("g", 6, 3, 1)
    (consumer,) = facts["consumers"]
    assert (consumer["consumer"], consumer["pending"]) == ("ann", 3)
    assert consumer["idle_ms"] >= 0


def test_rates_are_what_happened_between_two_looks(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    before = _look(store, None)
    jobs.add_many([{"n": n, "pad": "x" * 100} for n in range(50)])
    jobs.group("g").consumer("ann").read(count=20)
    store.stream("made").add({"n": 1})
    now = _look(store, None)
    now.at = before.at + 2.0
    pulse = _between(store, before, now)
    jobs_pulse, made = pulse.streams
    assert (jobs_pulse.entries_per_s, jobs_pulse.delivered_per_s) == (25.0, 10.0)
    assert jobs_pulse.bytes_per_s is not None
    assert 50 * 100 / 2 < jobs_pulse.bytes_per_s < 50 * 150 / 2
    assert made.entries_per_s is None  # since when it is there nobody knows


def test_bytes_are_counted_over_segments_that_were_rolled_and_packed(small: diskstream.Store) -> None:
    stream = small.stream("s")
    stream.add({"n": 0})
    before = stream.vitals()
    for _ in range(300):
        stream.add({"pad": "x" * 100})
    small.seal()
    now = stream.vitals()
    assert before is not None
    assert now is not None
    assert len(now.segments) > 4
    assert 300 * 100 < now.bytes_since(before) < 300 * 200
    assert now.bytes_since(now) == 0


@pytest.fixture
def small(tmp_path: Path) -> Any:
    with diskstream.open(tmp_path / "small", segment_bytes=8192, seal="manual", fsync="os") as opened:
        yield opened


def test_what_is_not_on_disk_yet_is_told(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("s")
        stream.add({"n": 1})
        store.sync()
        assert vitals(stream).unflushed_bytes == 0
        stream.add({"pad": "x" * 1000})
        assert 1000 < (vitals(stream).unflushed_bytes or 0) < 1200
        with diskstream.open(store.path, read_only=True) as looking:
            assert 1000 < (vitals(looking.stream("s")).unflushed_bytes or 0) < 1200


def vitals(stream: diskstream.Stream) -> Vitals:
    found = stream.vitals()
    assert found is not None
    return found


def test_a_page_that_is_none_or_of_another_boot_tells_nothing(store: diskstream.Store) -> None:
    store.stream("s").add({"n": 1})
    directory = store.path / "streams" / names.encode_name(b"s")
    found = peek(directory)
    assert found is not None
    assert (found.is_poisoned, found.is_rotten) == (False, False)
    page = directory.parent / "copy"
    page.mkdir()
    assert peek(page) is None
    content = (directory / "ctl").read_bytes()
    for other in (b"", content[:100], b"x" + content[1:], content[:8] + b"\x09" + content[9:]):
        (page / "ctl").write_bytes(other)
        assert peek(page) is None
    (page / "ctl").write_bytes(content[:16] + bytes(16) + content[32:])
    unknown = peek(page)
    assert unknown is not None
    assert unknown.unflushed_bytes is None
    (page / "ctl").write_bytes(content[:12] + b"\x09" + content[13:])
    amiss = peek(page)
    assert amiss is not None
    assert (amiss.is_poisoned, amiss.is_rotten) == (True, True)


def test_a_damaged_stream_is_shown_and_the_others_with_it(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    store.stream("other").add({"n": 1})
    store.close()
    (log,) = (store.path / "streams" / "other").glob("*.log")
    log.write_bytes(b"\xff" * 4096)
    states = {each["stream"]: each["state"] for each in looked(store)["streams"]}
    assert states == {"jobs": "ok", "other": "damaged"}
    assert str(log) in top(store, "--once", "-i", "50ms").stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (diskstream.StorageError("/x", "open", errno.EACCES, "Permission denied"), "unreadable"),
        (diskstream.NewerFormatError("/x", "log", 1, 2), "unreadable"),
        (diskstream.CorruptionError("/x", "log", 0, "one", "none"), "damaged"),
    ],
)
def test_a_stream_that_cannot_be_looked_at_is_damaged_only_where_its_bytes_are(
    store: diskstream.Store,
    jobs: diskstream.Stream,
    fault: diskstream.DiskstreamError,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has no right to it was told that it is damaged, and repaired what was sound."""

    def ill(_: diskstream.Stream) -> None:
        raise fault

    monkeypatch.setattr(diskstream.Stream, "vitals", ill)
    (pulse,) = _between(store, _look(store, None), _look(store, None)).streams
    assert (pulse.stream, pulse.state, pulse.fault is None) == (b"jobs", state, False)


def test_streams_may_go_between_two_looks(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    before = _look(store, None)
    store.delete("jobs")
    assert _between(store, before, _look(store, None)).streams == []


@pytest.mark.parametrize("order", list(ORDERS))
def test_what_is_amiss_comes_first_in_any_order(store: diskstream.Store, jobs: diskstream.Stream, order: str) -> None:
    pulse = _between(store, _look(store, None), _look(store, None))
    many = [Pulse(**{**pulse.facts(), "streams": pulse.streams * 30})]
    assert screen(many[0], sort=order, rows=5) is not None
    lines = top(store, "--once", "-i", "50ms", "--sort", order).stdout.splitlines()
    assert re.match(r"jobs +0", lines[2])


def test_only_the_streams_that_match(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    store.stream("other").add({"n": 1})
    facts = json.loads(top(store, "o*", "--once", "-i", "50ms", "--json").stdout)
    assert [each["stream"] for each in facts["streams"]] == ["other"]


def test_nothing_in_the_store_changes(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    store.close()
    before = sorted((str(path), path.stat().st_mtime_ns) for path in store.path.rglob("*"))
    top(store, "-n", "3", "-i", "50ms")
    assert sorted((str(path), path.stat().st_mtime_ns) for path in store.path.rglob("*")) == before


def test_on_a_terminal_the_same_place_is_drawn_again(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    drawn = on_a_terminal("top", "-n", "3", "-i", "50ms", "-d", str(store.path))
    assert drawn.count("slowest consumers") >= 3
    assert "\x1b[1A" in drawn  # up a line
    assert drawn.rstrip().endswith("\x1b[?25h")  # the cursor is there again


def test_on_a_terminal_of_80_columns_no_number_is_cut(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    """Each column lost some: entries stood as `1,2…`, and how far a group lags behind as `…`."""
    store.stream("long name " * 8).add_many([{"n": "." * 100}] * 1_234)
    store.stream("long name " * 8).create_group("g", "0")
    wide = on_a_terminal("top", "--once", "-i", "50ms", "-d", str(store.path))
    drawn = on_a_terminal("top", "--once", "-i", "50ms", "-d", str(store.path), COLUMNS="80", TERM="xterm")
    assert all(word in wide for word in ("segs", "groups", "unflushed", "state"))
    assert "unflushed" not in drawn
    row = next(line for line in drawn.splitlines() if "1,234" in line)
    assert re.search(r"1,234 +\d+\.\d kB +1,234 +0  ok", row)
    assert row.count("…") == 1  # of the name


def test_a_terminal_that_moves_no_cursor_is_shown_each_look(store: diskstream.Store, jobs: diskstream.Stream) -> None:
    """Nothing was shown there until it ended, and then the last look alone."""
    drawn = on_a_terminal("top", "-n", "3", "-i", "50ms", "-d", str(store.path), TERM="dumb")
    assert (drawn.count("slowest consumers"), "\x1b" in drawn) == (3, False)


def on_a_terminal(*words: str, **extra: str) -> str:
    """What a command writes to a terminal of its own."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40", **extra}
    written, status = shown_on_a_terminal([sys.executable, "-c", PROGRAM, *words], environment)
    assert status == 0
    return written.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["-i", "1ms"],
        ["-i", "soon"],
        ["-i", "20000w"],
        ["-n", "0"],
        ["--sort", "x"],
        ["--rows", "0"],
        ["--once", "-n", "3"],
    ],
)
def test_wrong_usage(store: diskstream.Store, words: list[str]) -> None:
    top(store, *words, code=2)
