"""An entry that is kept for a waiter in another process goes to a client who waits, if that one does not take it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.server.serving import Server
from tests.engine.children import until
from tests.server.client import Client, serving
from tests.server.test_waiting import blocked, values


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.to(server) as opened:
        opened.call("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
        yield opened


@pytest.fixture
def other(server: Server, client: Client) -> Iterator[Store]:
    """Another opening of the store, as another process has."""
    with diskstream.open(server.settings.dir) as store:
        yield store


def test_what_a_waiter_that_is_gone_was_woken_for(server: Server, client: Client, other: Store) -> None:
    """The client slept on until something else was added."""
    turns = []

    def wait(log: diskstream.engine.log.StreamLog) -> None:
        number = log.native.group_number(b"g")
        assert number is not None
        turns.append(log.ctl.join_queue(number))

    other.stream("x")._use(wait, None)
    assert turns
    assert turns[0] is not None
    with (
        blocked(server, 1, "XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "BLOCK", 0, "STREAMS", "x", ">") as first,
        blocked(server, 2, "XREADGROUP", "GROUP", "g", "b", "COUNT", 1, "BLOCK", 0, "STREAMS", "x", ">") as second,
    ):
        client.call("XADD", "x", "1-0", "n", 1)  # kept for who never comes
        assert values(first.reply()) == [b"1"]
        client.call("XADD", "x", "2-0", "n", 2)
        assert values(second.reply()) == [b"2"]


def test_a_client_is_not_starved_by_consumers_that_wait_elsewhere(server: Server, client: Client, other: Store) -> None:
    """They stood before it each time: it got nothing, for as long as one of them waited."""
    over, served, taken = threading.Event(), {"client": 0, "elsewhere": 0}, list[int]()
    group = other.stream("x").group("g", create=False)

    def elsewhere() -> None:
        consumer = group.consumer("elsewhere")
        while not over.is_set():
            served["elsewhere"] += len(consumer.read(count=1, block=0.2))

    def reading() -> None:
        with Client.to(server) as reader:
            while not over.is_set():
                words = ("GROUP", "g", "here", "COUNT", 1, "BLOCK", 200, "STREAMS", "x", ">")
                served["client"] += len(values(reader.call("XREADGROUP", *words) or [[b"x", []]]))

    threads = [threading.Thread(target=work) for work in (elsewhere, reading)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 31):
            until(lambda: server.loop.runner.waiters.count == 1)
            client.call("XADD", "x", "*", "n", number)
            taken.append(number)
            until(lambda: sum(served.values()) == len(taken))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert min(served.values()) >= 5, served
