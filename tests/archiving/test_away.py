"""A source that is loading its data set, hangs up, or does not answer: told at once, and waited for by who follows."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, outages
from tests.archiving.gateway import Gateway
from tests.archiving.test_archive import until
from tests.archiving.world import World
from tests.conftest import RedisServer


@pytest.fixture
def gateway(redis_server: RedisServer) -> Iterator[Gateway]:
    gate = Gateway(redis_server.host, redis_server.port)
    yield gate
    gate.close()


@pytest.fixture
def behind(world: World, gateway: Gateway) -> World:
    """The same source, reached through the gateway; the client goes straight."""
    return replace(world, url=f"redis://127.0.0.1:{gateway.port}/9")


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)


# --- once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("loading", "it is loading its data set (Redis is loading the dataset in memory) hint: run this again when"),
        ("away", "the connection failed"),
        ("silent", "it did not answer in time"),
        ("busy", "it is busy with a script (BUSY Redis is busy running a script."),
    ],
)
def test_without_follow_it_is_an_error_with_a_way_out(behind: World, gateway: Gateway, mode: str, said: str) -> None:
    gateway.turn(mode)
    # Only silence is waited out: what answers, however late, is told by its answer.
    patience_s = 0.2 if mode == "silent" else 60
    told = replace(behind, url=f"{behind.url}?socket_timeout={patience_s}").refused()
    assert said in told
    assert "hint: run this again" in told
    assert not behind.directory.exists()


# --- while it follows -------------------------------------------------------------------------------------------------


@dataclass
class Followed:
    """An archiver that follows in a thread: what it said of the source, and what became of it."""

    said: list[str]
    stop: threading.Event
    result: Any = None


def has_come(world: World, entries: int) -> bool:
    return (world.directory / "store.json").exists() and len(world.copy("s")) == entries


@contextmanager
def following(world: World, **options: Any) -> Iterator[Followed]:
    run = Followed([], threading.Event())

    def work() -> None:
        # As the command does it: on a busy machine the first answer may take longer than that, too.
        server = outages.reached(f"{world.url}?socket_timeout=1", run.stop, run.said.append)
        assert server is not None
        with server, diskstream.open(world.directory) as store:
            told = ArchiveOptions(follow=True, on_away=run.said.append, **options)
            run.result = Archiver(server, store, [b"*"], told).run(run.stop)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        thread.join(60)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("loading", "it is loading its data set"),
        ("away", "the connection failed"),
        ("silent", "it did not answer in time"),
        ("busy", "it is busy with a script"),  # of somebody's: the archive ended for good
        ("masterdown", "it is a replica whose primary is away"),
    ],
)
def test_who_follows_waits_for_a_source_that_comes_back(behind: World, gateway: Gateway, mode: str, why: str) -> None:
    """One LOADING, of a Redis that was started anew, and the archive ended for good."""
    made = behind.fill("s", 20)
    with following(behind, trim=True) as run:
        until(lambda: has_come(behind, 20))
        gateway.turn(mode)
        until(lambda: any(why in each for each in run.said))
        made |= behind.fill("s", 20, first=21)
        gateway.turn("through")
        until(lambda: has_come(behind, 40) and not behind.source("s"))
    assert behind.copy("s") == made
    assert run.result.is_good
    assert run.result.reports[0].entries == 40
    assert run.said[-1] == "the source answers again: it goes on where it was"
    assert "it is waited for" in run.said[0]


def test_a_source_that_comes_back_with_another_stream_is_not_trimmed(behind: World, gateway: Gateway) -> None:
    """It was compared when the archive began; what came back lost all that, and its IDs go on."""
    behind.fill("s", 20)
    with following(behind, trim=True) as run:
        until(lambda: has_come(behind, 20))
        gateway.turn("away")
        until(lambda: bool(run.said))
        behind.client.delete("s")
        behind.client.xadd("s", {"other": "stream"}, "7-1")
        gateway.turn("through")
        until(lambda: any("answers again" in each for each in run.said))
    assert not run.result.is_good
    assert list(behind.source("s")) == ["7-1"]


def test_one_that_is_told_to_end_while_it_waits_ends_and_says_that_not_all_was_copied(
    behind: World, gateway: Gateway
) -> None:
    behind.fill("s", 20)
    with following(behind) as run:
        until(lambda: has_come(behind, 20))
        gateway.turn("loading")
        until(lambda: bool(run.said))
    assert run.result.stopped


def test_one_that_is_told_to_end_while_it_asks_again_ends_as_one_that_rests(
    behind: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with the error that the last look gave it, and without a report of what it had copied."""
    behind.fill("s", 20)
    begin_anew = Archiver._begin_anew

    def told_to_end(archiver: Archiver) -> None:
        run.stop.set()
        begin_anew(archiver)

    monkeypatch.setattr(Archiver, "_begin_anew", told_to_end)
    with following(behind) as run:
        until(lambda: has_come(behind, 20))
        gateway.turn("loading")
        assert run.stop.wait(30)
    assert run.result.stopped
    assert run.result.reports[0].entries == 20


def test_one_that_is_refused_is_not_waited_for(
    behind: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another password does not come by itself."""
    monkeypatch.setattr(Gateway, "_put_off", lambda _gate, client, _answer: client.sendall(b"-NOAUTH no\r\n" * 9))
    gateway.turn("loading")
    assert "password" in behind.refused("--follow")


@pytest.mark.parametrize("mode", ["loading", "away"])
def test_a_source_that_is_not_there_yet_is_waited_for_from_the_beginning(
    behind: World, gateway: Gateway, mode: str
) -> None:
    gateway.turn(mode)
    behind.fill("s", 5)
    process = behind.process("--key", "s", "--follow")
    try:
        assert process.stderr is not None
        assert "it is waited for" in process.stderr.readline()
        gateway.turn("through")
        assert "answers again" in process.stderr.readline()
        until(lambda: has_come(behind, 5))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err


def test_a_signal_ends_the_waiting_for_one_that_never_came(behind: World, gateway: Gateway) -> None:
    gateway.turn("loading")
    process = behind.process("--key", "s", "--follow")
    try:
        assert process.stderr is not None
        assert "it is waited for" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert "it was stopped before the source answered" in err
