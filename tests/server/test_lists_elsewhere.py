"""Clients that wait for a list are served by what another server over the same directory puts into it."""

import contextlib
from pathlib import Path

import pytest

from tests.server.client import Client, serving, waits_until_blocked


@pytest.mark.parametrize(
    "lines", [["RPUSH l x"], ["RPUSH m x", "RENAME m l"], ["MULTI", "SET k v", "LPUSH l x", "EXEC"]]
)
def test_a_list_that_another_server_fills_ends_a_wait(tmp_path: Path, lines: list[str]) -> None:
    """What changes a list rings no bell of its name: who waited for it waited on for ever."""
    path = tmp_path / "store"
    with serving(path) as one, serving(path) as two, Client.to(one) as waiting, Client.to(two) as other:
        with Client.to(one) as beside:
            waiting.send("BLPOP", "none", "l", 0)
            waits_until_blocked(beside, one, 1)
        for line in lines:
            other.call(*line.split())
        assert waiting.reply() == [b"l", b"x"]
        assert other.call("EXISTS", "l") == 0


def test_who_waits_first_is_served_first_and_one_element_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with contextlib.ExitStack() as opened:
        one, two = (opened.enter_context(serving(path)) for _ in range(2))
        waiting = [opened.enter_context(Client.to(one)) for _ in range(3)]
        beside, other = opened.enter_context(Client.to(one)), opened.enter_context(Client.to(two))
        for number, client in enumerate(waiting, 1):
            client.send("BLPOP", "l", 0)
            waits_until_blocked(beside, one, number)
        for value in (b"1", b"2", b"3"):
            other.call("RPUSH", "l", value)
        assert [client.reply() for client in waiting] == [[b"l", b"1"], [b"l", b"2"], [b"l", b"3"]]


def test_a_wait_goes_on_in_stores_that_were_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with serving(path) as one, serving(path) as two, Client.to(one) as waiting, Client.to(two) as other:
        with Client.to(one) as beside:
            waiting.send("BLPOP", "l", 0)
            waits_until_blocked(beside, one, 1)
            beside.call("CONFIG", "SET", "appendfsync", "always")
            beside.call("SWAPDB", 0, 1)
        other.call("RPUSH", "l", "x")
        assert waiting.reply() == [b"l", b"x"]


def test_names_that_nobody_waits_for_any_more_are_forgotten(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        for number in range(200):
            client.send("BLPOP", f"l{number}", 0)
            waits_until_blocked(other, server, 1)
            other.call("LPUSH", f"l{number}", "x")
            assert client.reply() == [b"l%d" % number, b"x"]
        client.send("BLPOP", "last", 0)
        waits_until_blocked(other, server, 1)
        other.call("PING")
        assert len(server.loop.runner.bells._lists) <= 65
