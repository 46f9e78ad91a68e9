"""`diskstream tail`: the newest entries, those that come, and what becomes of the streams meanwhile."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream import EntryID
from diskstream.cli import main
from diskstream.cli.tail.follower import Follower
from diskstream.ids import MIN_ID

# Whoever runs the tests in the background may have them ignore SIGHUP, and children inherit that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from diskstream.cli import main
main(sys.argv[1:], prog_name='diskstream')
"""
LIMIT_S = 30.0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store whose streams `a` and `b` have twelve entries and one."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add_many([{"n": n} for n in range(1, 13)], ids=[f"{n}-0" for n in range(1, 13)])
        store.stream("b").add({"x": "y"}, id="5-5")
    return tmp_path / "store"


def tail(directory: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["tail", *words, "-d", str(directory)])
    assert done.exit_code == code, done.output
    return done


def ids(done: Result) -> list[str]:
    return [line.split()[0] for line in done.stdout.splitlines()]


def milliseconds(*numbers: int) -> list[str]:
    return [f"{number}-0" for number in numbers]


# --- once -------------------------------------------------------------------------------------------------------------


def test_the_newest_ten_or_as_many_as_are_wanted_the_oldest_first(directory: Path) -> None:
    assert ids(tail(directory, "a")) == milliseconds(*range(3, 13))
    assert ids(tail(directory, "a", "-n", "2")) == milliseconds(11, 12)
    assert ids(tail(directory, "a", "-n", "0")) == []
    assert ids(tail(directory, "a", "-n", "999999999")) == milliseconds(*range(1, 13))


def test_from_an_id_or_a_time_or_so_long_ago(directory: Path) -> None:
    assert ids(tail(directory, "a", "--from", "11")) == milliseconds(11, 12)
    assert ids(tail(directory, "a", "--from", "(11-0")) == milliseconds(12)
    assert ids(tail(directory, "a", "--from", "1970-01-01T00:00:00.012")) == milliseconds(12)
    assert ids(tail(directory, "a", "--since", "1d")) == []
    assert len(ids(tail(directory, "a", "--since", "20000w"))) == 12  # before 1970
    with diskstream.open(directory) as store:
        made = store.stream("a").add({"n": 13})
    assert ids(tail(directory, "a", "--since", "1h")) == [str(made)]


def test_of_several_streams_each_line_names_its_own(directory: Path) -> None:
    assert tail(directory, "a", "b", "-n", "1").stdout.splitlines() == ["a  12-0  n=12", "b  5-5  x=y"]
    lines = tail(directory, "a", "b", "-n", "1", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"stream": "a", "id": "12-0", "fields": {"n": "12"}},
        {"stream": "b", "id": "5-5", "fields": {"x": "y"}},
    ]


@pytest.mark.parametrize(
    "words", [["a", "-n", "1", "--since", "1h"], ["a", "--from", "x"], ["a", "--retry"], ["a", "-n", "-1"], []]
)
def test_wrong_usage(directory: Path, words: list[str]) -> None:
    tail(directory, *words, code=2)


def test_a_stream_that_is_not_there_is_an_error(directory: Path) -> None:
    assert "there is no stream c" in tail(directory, "a", "c", code=1).stderr


def test_more_streams_than_a_store_keeps_open(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(300)]
    with diskstream.open(tmp_path / "store", fsync="os", max_open_streams=400) as store:
        for name in names:
            store.stream(name).add({"n": 1}, id="1-0")
    assert tail(tmp_path / "store", *names).stdout.splitlines() == [f"{name}  1-0  n=1" for name in names]


# --- following --------------------------------------------------------------------------------------------------------


class Following:
    """A `tail -f` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: dict[str, Queue[str]] = {"out": Queue(), "err": Queue()}
        for name, file in (("out", process.stdout), ("err", process.stderr)):
            assert file is not None
            Thread(target=self._read, args=(name, file), daemon=True).start()

    def _read(self, name: str, file: IO[str]) -> None:
        for line in file:
            self._lines[name].put(line.rstrip("\n"))

    def line(self, name: str = "out") -> str:
        """The next line that it prints."""
        try:
            return self._lines[name].get(timeout=LIMIT_S)
        except Empty:
            pytest.fail(f"tail printed nothing more; it has status {self.process.poll()}", pytrace=False)

    def has_line(self) -> bool:
        """Whether it has printed one; fails where it has ended without."""
        assert self.process.poll() is None
        return not self._lines["out"].empty()

    def ended(self) -> int:
        return self.process.wait(LIMIT_S)


@contextmanager
def following(directory: Path, *words: str) -> Iterator[Following]:
    command = [sys.executable, "-c", PROGRAM, "tail", "-f", *words, "-d", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield Following(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_comes_is_printed_until_it_is_told_to_end(directory: Path, number: signal.Signals) -> None:
    with following(directory, "a", "-n", "1") as tailing, diskstream.open(directory) as store:
        assert tailing.line() == "12-0  n=12"
        for n in range(13, 16):
            store.stream("a").add({"n": n}, id=f"{n}-0")
            assert tailing.line() == f"{n}-0  n={n}"
        tailing.process.send_signal(number)
        assert tailing.ended() == 0


def test_of_what_comes_nothing_lies_below_where_it_was_told_to_begin(directory: Path) -> None:
    """Where that was to come yet, all that came before it was printed."""
    with diskstream.open(directory) as store:
        store.stream("b").add({"x": "z"}, id="200-0")
        with following(directory, "a", "b", "--from", "100-0") as tailing:
            assert tailing.line() == "b  200-0  x=z"
            for n in (50, 99, 100, 101):
                store.stream("a").add({"n": n}, id=f"{n}-0")
            assert [tailing.line() for _ in range(2)] == ["a  100-0  n=100", "a  101-0  n=101"]


def test_since_a_time_that_is_over_all_that_comes_is_printed(directory: Path) -> None:
    """IDs need not be of this clock."""
    with diskstream.open(directory) as store:
        made = store.stream("b").add({"x": "z"})
        with following(directory, "a", "b", "--since", "1h") as tailing:
            assert tailing.line() == f"b  {made}  x=z"
            store.stream("a").add({"n": 13}, id="13-0")
            assert tailing.line() == "a  13-0  n=13"


def test_from_the_end_on_is_from_where_it_is_and_not_from_the_greatest_id(directory: Path) -> None:
    with diskstream.open(directory) as store, following(directory, "a", "--from", "+") as tailing:
        n = 13
        while not tailing.has_line():
            store.stream("a").add({"n": n}, id=f"{n}-0")
            n += 1
            os.sched_yield()
        assert tailing.line() in {f"{number}-0  n={number}" for number in range(13, n)}


def test_it_ends_when_nobody_reads_it_any_more_though_nothing_comes(directory: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "tail", "-f", "a", "-d", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"3-0  n=3\n"
        process.stdout.close()
        assert process.wait(LIMIT_S) == 1
        assert process.stderr.read() == b""


def test_streams_that_roll_and_are_sealed_are_followed_without_a_gap(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", segment_bytes=8192, fsync="os") as store:
        stream = store.stream("a")
        stream.add({"n": 0}, id="1-0")
        with following(tmp_path / "store", "a", "-n", "1", "--json") as tailing:
            assert json.loads(tailing.line())["id"] == "1-0"
            for n in range(2, 800):
                stream.add({"n": n, "pad": "x" * 60}, id=f"{n}-0")
            assert stream.info().segments > 4
            for n in range(2, 800):
                assert json.loads(tailing.line())["fields"]["n"] == str(n)


def test_a_stream_that_goes_is_told_of_and_ends_it(directory: Path) -> None:
    with following(directory, "a", "-n", "1") as tailing, diskstream.open(directory) as store:
        tailing.line()
        store.rename("a", "c")
        assert tailing.line("err") == "a: the stream is gone, removed or renamed"
        assert tailing.line("err").startswith("error: stream a is gone")
        assert tailing.ended() == 1


def test_with_retry_a_stream_may_come_go_and_come_again(directory: Path) -> None:
    with following(directory, "new", "b", "--retry") as tailing, diskstream.open(directory) as store:
        assert tailing.line() == "b  5-5  x=y"  # the one that is not there was looked for before
        for n in (7, 3):
            store.stream("new").add({"n": n}, id=f"{n}-0")
            assert tailing.line("err") == "new: the stream is there now"
            assert tailing.line() == f"new  {n}-0  n={n}"
            store.delete("new")
            assert tailing.line("err") == "new: the stream is gone, removed or renamed; waiting for one of this name"
        tailing.process.send_signal(signal.SIGTERM)
        assert tailing.ended() == 0


def test_the_others_are_followed_when_one_goes(directory: Path) -> None:
    with following(directory, "a", "b", "-n", "1") as tailing, diskstream.open(directory) as store:
        assert (tailing.line(), tailing.line()) == ("a  12-0  n=12", "b  5-5  x=y")
        store.delete("a")
        assert tailing.line("err").startswith("a: the stream is gone")
        store.stream("b").add({"n": 7}, id="7-0")
        assert tailing.line() == "b  7-0  n=7"


def test_a_damaged_stream_ends_it_in_words(directory: Path) -> None:
    with diskstream.open(directory) as store:
        store.seal("a")
        (sealed,) = (directory / "streams" / "a").glob("*.seg")
        content = bytearray(sealed.read_bytes())
        content[len(content) // 4] ^= 0xFF
        sealed.write_bytes(content)
    with following(directory, "a") as tailing:
        assert tailing.line("err").startswith("error:")
        assert tailing.ended() == 1


# --- what a follower makes of what happened, step by step -------------------------------------------------------------


class Watched:
    """A follower of stream `s` that looks when it is told to."""

    def __init__(self, store: diskstream.Store, *, retry: bool = True, start: EntryID = MIN_ID) -> None:
        self.said: list[str] = []
        self.stream = store.stream("s")
        self.retry = retry
        self.follower = Follower(self.stream)
        self.follower.begin(start)

    def read(self) -> list[diskstream.Entry]:
        return self.stream.read(self.follower.position)

    def take(self, entries: list[diskstream.Entry]) -> list[EntryID]:
        return [entry.id for entry in self.follower.take(entries, self.said.append, retry=self.retry)]


def test_entries_that_were_trimmed_before_they_were_read_are_counted(store: diskstream.Store) -> None:
    stream = store.stream("s")
    stream.add({"n": 0}, id="1-0")
    watched = Watched(store)
    for n in range(2, 50):
        stream.add({"n": n}, id=f"{n}-0", maxlen=10)
    assert watched.take(watched.read()) == [EntryID(n, 0) for n in range(40, 50)]
    assert watched.said == ["38 entries were gone, trimmed or deleted, before they could be shown"]
    stream.trim(maxlen=0)
    assert watched.take(watched.read()) == []  # all of them had been shown
    stream.add({"n": 50}, id="50-0")
    assert watched.take(watched.read()) == [EntryID(50, 0)]
    assert len(watched.said) == 1


def test_entries_trimmed_between_reading_and_looking_are_not_missed(store: diskstream.Store) -> None:
    stream = store.stream("s")
    stream.add({"n": 0}, id="1-0")
    watched = Watched(store)
    stream.add_many([{"n": n} for n in range(5)])
    read = watched.read()
    stream.trim(maxlen=1)
    assert len(watched.take(read)) == 5
    assert watched.said == []


def test_what_was_read_of_another_stream_of_the_name_is_read_again_from_its_beginning(store: diskstream.Store) -> None:
    store.stream("s").add({"n": 0}, id="1-0")
    watched = Watched(store)
    store.delete("s")
    store.stream("s").add_many([{"n": 1}, {"n": 2}], ids=["1-0", "2-0"])
    read = watched.read()
    assert [entry.id for entry in read] == [EntryID(2, 0)]  # behind the position in the first
    assert watched.take(read) == []
    assert watched.said == ["the stream was removed, and one of this name was made anew: from its beginning"]
    assert watched.take(watched.read()) == [EntryID(1, 0), EntryID(2, 0)]


def test_where_it_was_told_to_begin_is_kept_when_a_stream_is_made_anew(store: diskstream.Store) -> None:
    store.stream("s").add({"n": 0}, id="1-0")
    watched = Watched(store, start=EntryID(5, 0))
    store.delete("s")
    store.stream("s").add_many([{"n": 1}, {"n": 2}], ids=["4-9", "5-0"])
    assert watched.take(watched.read()) == []
    assert watched.take(watched.read()) == [EntryID(5, 0)]


def test_what_lies_below_where_it_was_told_to_begin_is_not_missed(store: diskstream.Store) -> None:
    stream = store.stream("s")
    stream.add({"n": 0}, id="1-0")
    watched = Watched(store, start=EntryID(100, 0))
    for n in range(2, 50):
        stream.add({"n": n}, id=f"{n}-0", maxlen=10)
        assert watched.take(watched.read()) == []
    for n in range(100, 115):
        stream.add({"n": n}, id=f"{n}-0", maxlen=10)
    assert watched.take(watched.read()) == [EntryID(n, 0) for n in range(105, 115)]
    assert watched.said == ["5 entries were gone, trimmed or deleted, before they could be shown"]


def test_what_was_read_before_a_stream_went_is_shown(store: diskstream.Store) -> None:
    store.stream("s").add({"n": 0}, id="1-0")
    watched = Watched(store)
    store.stream("s").add({"n": 1}, id="2-0")
    read = watched.read()
    store.delete("s")
    assert watched.take(read) == [EntryID(2, 0)]
    assert watched.follower.gone


def test_the_store_is_only_looked_at(directory: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        found = (Path(folder) / name for folder, _, names in os.walk(directory) for name in names)
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = state()
    tail(directory, "a", "b")
    assert state() == before
