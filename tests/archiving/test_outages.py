"""What is said of a source that is away, how long it is rested for, and what is not waited for."""

import signal
import socket
import ssl
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from diskstream.archiving import outages, reached
from diskstream.archiving.outages import Outage
from diskstream.cli import archive, main
from diskstream.errors import RemoteError


class Rests:
    """A clock, and an event that is waited for by setting the clock on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rested: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.rested.append(seconds)
        self.now += seconds
        return False


def away(what: str = "cannot wait for entries: it is away", hint: str | None = None, kind: Any = None) -> RemoteError:
    error = RemoteError("redis://h:1", what, hint)
    error.__cause__ = kind or redis.ConnectionError("away")
    return error


def outage(rests: Rests) -> tuple[Outage, list[str]]:
    said: list[str] = []
    event: Any = rests
    return Outage(event, said.append, lambda: rests.now), said


def test_rounds_that_succeed_between_failures_do_not_begin_the_rests_anew() -> None:
    """A new round every 0.3 s, and two lines on standard error of each, for ever."""
    rests = Rests()
    one, said = outage(rests)
    for _ in range(20):
        one.over()
        rests.now += 0.5  # as long as an XREAD waits
        assert one.rest(away())
    assert all(before <= after for before, after in pairwise(rests.rested))
    assert rests.rested[-1] == outages._LONGEST_REST_S
    assert len(said) < 30
    assert "it is waited for" in said[0]
    assert "answers again" in said[1]


def test_within_a_moment_the_same_is_said_once() -> None:
    rests = Rests()
    one, said = outage(rests)
    for _ in range(5):
        one.rest(away())
        one.over()
    assert len(said) == 2
    one.rest(away("something else"))
    assert "something else" in said[2]


def test_one_that_lasts_after_all_is_said_again() -> None:
    """Else the last that was heard of it would be that it answers."""
    rests = Rests()
    one, said = outage(rests)
    one.rest(away())
    one.over()
    for _ in range(12):
        one.rest(away())
    assert ["it is waited for" in each for each in said] == [True, False, True]


def test_what_held_for_a_while_begins_anew() -> None:
    rests = Rests()
    one, said = outage(rests)
    for _ in range(2):
        for _ in range(5):
            one.rest(away())
        one.over()
        rests.now += outages._HELD_S
    assert rests.rested[:5] == rests.rested[5:]
    assert ["it is waited for" in each for each in said] == [True, False] * 2


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("does it speak TLS at this port?", "it is away; does it speak TLS at this port?; it is waited for"),
        ("run this again: it goes on where it stopped", "it is away; it is waited for"),  # which is what it does
        (None, "it is away; it is waited for"),
    ],
)
def test_what_to_do_is_said_too(hint: str | None, said: str) -> None:
    one, told = outage(Rests())
    one.rest(away(hint=hint))
    assert said in told[0]


def refused_certificate(*_: Any, **_more: Any) -> None:
    raise ssl.SSLCertVerificationError(1, "certificate verify failed")


def unknown_name(*_: Any, **_more: Any) -> None:
    raise socket.gaierror(-2, "Name or service not known")


@pytest.mark.parametrize(
    ("failing", "said"), [(unknown_name, "Name or service"), (refused_certificate, "certificate verify failed")]
)
def test_a_mistyped_address_is_told_at_once(monkeypatch: pytest.MonkeyPatch, failing: Any, said: str) -> None:
    """It was waited for, for ever."""
    monkeypatch.setattr(socket, "getaddrinfo", failing)
    stop = threading.Event()
    with pytest.raises(RemoteError, match=said):
        reached("redis://no-such-host:6379/0", stop, lambda _: stop.set())


def test_a_name_that_nobody_can_be_asked_about_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine starts, a service may come up before the resolver does: the archiver gave up at once."""

    def too_early(*_: Any, **_more: Any) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", too_early)
    stop, told = threading.Event(), list[str]()

    def say(what: str) -> None:
        told.append(what)
        stop.set()

    assert reached("redis://redis:6379/0", stop, say) is None
    assert "Temporary failure in name resolution" in told[0]
    assert "it is waited for" in told[0]


def test_without_follow_a_signal_ends_the_connecting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was taken for the event that nothing heeds before the server answers."""
    before, seen = signal.getsignal(signal.SIGINT), []

    def connect(_url: str) -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        raise away()

    monkeypatch.setattr(archive, "Server", connect)
    words = ("archive", "--from", "redis://h:1", "--key", "s", "--to", str(tmp_path / "store"))
    assert CliRunner().invoke(main, words).exit_code == 1
    assert seen == [before]
