"""redis-py as a service uses it: workers of a group on one pool, connections that break, pings between commands."""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.real_clients.servers import DATABASE, Target, clients, kill_until_it_waits_again, until_waiting
from tests.server.client import Client, serving

PATIENCE_MS = 20_000


@pytest.fixture(params=[2, 3])
def protocol(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def admin(target: Target) -> Iterator[Client]:
    with target.admin() as opened:
        yield opened


def pool(target: Target, **options: Any) -> redis.ConnectionPool:
    """Connections that try again at once when one breaks."""
    settings: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 3),
        "retry_on_error": [redis.ConnectionError],
        "decode_responses": True,
    }
    settings["socket_timeout"] = None  # what waits is not given up, whatever the default
    return redis.ConnectionPool.from_url(target.url, **{**settings, **options})


def entries(reply: Any) -> list[tuple[str, dict[str, str]]]:
    """Those of the one stream of a reply, in the shape of either protocol."""
    if isinstance(reply, dict):
        return [entry for pages in reply.values() for page in pages for entry in page]
    return [entry for _, page in reply for entry in page]


def work(client: Any, name: str, done: "queue.Queue[int]") -> None:
    """Works until the group goes: what is read is acknowledged and its result added in one transaction."""
    while True:
        try:
            given = entries(client.xreadgroup("g", name, {"jobs": ">"}, count=7, block=PATIENCE_MS))
        except redis.ResponseError as error:
            assert "NOGROUP" in str(error)
            return
        with client.pipeline(transaction=True) as batch:
            for id, fields in given:
                batch.xadd("results", {"by": name, "n": fields["n"]}).xack("jobs", "g", id)
            acknowledged = batch.execute()[1::2]
        assert acknowledged == [1] * len(given)
        for _, fields in given:
            done.put(int(fields["n"]))


def test_workers_of_a_group_share_a_pool(target: Target, protocol: int, admin: Client) -> None:
    with redis.Redis(connection_pool=pool(target, protocol=protocol, max_connections=8)) as client:
        client.xgroup_create("jobs", "g", mkstream=True)
        done: queue.Queue[int] = queue.Queue()
        with ThreadPoolExecutor(3) as threads:
            workers = [threads.submit(work, client, name, done) for name in ("ann", "bob", "eve")]
            until_waiting(admin, "", "", "")
            for start in range(0, 300, 100):
                with client.pipeline(transaction=start == 100) as batch:
                    for n in range(start, start + 100):
                        batch.xadd("jobs", {"n": n})
                    assert len(batch.execute()) == 100
            assert sorted(done.get(timeout=20) for _ in range(300)) == list(range(300))
            assert client.xpending("jobs", "g")["pending"] == 0
            assert client.xinfo_groups("jobs")[0]["lag"] == 0
            client.xgroup_destroy("jobs", "g")
            for worker in workers:
                worker.result(20)
        assert sorted(int(fields["n"]) for _, fields in client.xrange("results")) == list(range(300))
        client.connection_pool.disconnect()


def test_what_a_lost_worker_held_is_claimed(target: Target, protocol: int) -> None:
    with redis.Redis(connection_pool=pool(target, protocol=protocol)) as client:
        client.xgroup_create("jobs", "g", mkstream=True)
        ids = [client.xadd("jobs", {"n": n}, id=f"{n}-1") for n in range(1, 10)]
        with redis.Redis(connection_pool=pool(target, protocol=protocol)) as lost:
            given = entries(lost.xreadgroup("g", "ann", {"jobs": ">"}, count=9))
            assert [id for id, _ in given] == ids
            assert lost.xack("jobs", "g", "1-1", "2-1") == 2
            lost.connection_pool.disconnect()
        client.xdel("jobs", "5-1")
        claimed, deleted, cursor = [], [], "0-0"
        while True:
            cursor, found, gone = client.xautoclaim("jobs", "g", "bob", 0, cursor, count=2)
            claimed += [id for id, _ in found]
            deleted += gone
            if cursor == "0-0":
                break
        assert (claimed, deleted) == (["3-1", "4-1", "6-1", "7-1", "8-1", "9-1"], ["5-1"])
        rows = client.xpending_range("jobs", "g", "-", "+", 10)
        assert {(row["consumer"], row["times_delivered"]) for row in rows} == {("bob", 2)}
        assert entries(client.xreadgroup("g", "bob", {"jobs": "0"}))[0] == ("3-1", {"n": "3"})
        client.connection_pool.disconnect()


def waiting(client: Any, admin: Client) -> "Future[Any]":
    """A read of the group in a thread, which has begun to wait."""
    threads = ThreadPoolExecutor(1)
    future = threads.submit(client.xreadgroup, "g", "ann", {"jobs": ">"}, None, PATIENCE_MS)
    threads.shutdown(wait=False)
    until_waiting(admin, "ann")
    return future


def test_a_waiting_worker_whose_connection_is_killed_waits_again(target: Target, protocol: int, admin: Client) -> None:
    with redis.Redis(connection_pool=pool(target, protocol=protocol, client_name="ann")) as client:
        client.xgroup_create("jobs", "g", mkstream=True)
        reading = waiting(client, admin)
        again = kill_until_it_waits_again(admin, "ann")
        assert (again["db"], again.get("resp", str(protocol))) == (str(DATABASE), str(protocol))
        admin.call("XADD", "jobs", "5-1", "n", 1)
        assert entries(reading.result(20)) == [("5-1", {"n": "1"})]
        client.connection_pool.disconnect()


def test_a_worker_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    """Of diskstream only: the same directory and port, and what the group holds is as it was."""
    with serving(tmp_path / "served") as server:
        target = Target(server.port, ours=True)
        client = redis.Redis(connection_pool=pool(target))
        client.xgroup_create("jobs", "g", mkstream=True)
        client.xadd("jobs", {"n": 1}, id="1-1")
        client.xadd("jobs", {"n": 2}, id="2-1")
        assert entries(client.xreadgroup("g", "ann", {"jobs": ">"}, count=1)) == [("1-1", {"n": "1"})]
    with client, pytest.raises(redis.ConnectionError):
        client.xlen("jobs")
    with serving(tmp_path / "served", port=target.port):
        assert entries(client.xreadgroup("g", "ann", {"jobs": "0"})) == [("1-1", {"n": "1"})]
        assert entries(client.xreadgroup("g", "ann", {"jobs": ">"})) == [("2-1", {"n": "2"})]
        assert client.xack("jobs", "g", "1-1", "2-1") == 2
        client.connection_pool.disconnect()


def test_connections_are_named_and_pinged_between_commands(target: Target, protocol: int, admin: Client) -> None:
    def pings() -> int:
        found: str = admin.call("INFO", "commandstats").decode()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in found.split() if "cmdstat_ping:" in line)

    # An interval so short that it is over before every command.
    settings = {"protocol": protocol, "client_name": "ann", "health_check_interval": 1e-9}
    with redis.Redis(connection_pool=pool(target, **settings)) as client:
        client.xadd("jobs", {"n": 0})
        before = pings()
        for n in range(5):
            client.xadd("jobs", {"n": n})
        assert pings() - before == 5
        assert client.client_getname() == "ann"
        assert client.client_setname("eve")
        assert "eve" in [each["name"] for each in clients(admin)]
        killed = client.client_id()
        assert admin.call("CLIENT", "KILL", "ID", killed) == 1
        assert client.xlen("jobs") == 6
        assert client.client_id() != killed
        assert client.client_getname() == "ann"
        client.connection_pool.disconnect()


def test_a_pipeline_tells_its_errors_apart(target: Target, protocol: int) -> None:
    with redis.Redis(connection_pool=pool(target, protocol=protocol)) as client:
        client.xadd("jobs", {"n": 0}, id="10-1")
        with client.pipeline(transaction=False) as batch:
            batch.xadd("jobs", {"n": 1}, id="10-2").xadd("jobs", {"n": 2}, id="3-1").xadd("jobs", {"n": 3}, id="10-3")
            batch.xack("jobs", "nobody", "10-1").xreadgroup("nobody", "ann", {"jobs": ">"}).xlen("jobs")
            first, smaller, third, none, no_group, length = batch.execute(raise_on_error=False)
        assert (first, third, none, length) == ("10-2", "10-3", 0, 3)
        assert isinstance(smaller, redis.ResponseError)
        assert "equal or smaller" in str(smaller)
        assert isinstance(no_group, redis.ResponseError)
        assert "NOGROUP" in str(no_group)
        with client.pipeline() as batch:
            batch.watch("jobs")
            client.xadd("jobs", {"n": 4})
            batch.multi()
            batch.xadd("jobs", {"n": 5})
            with pytest.raises(redis.WatchError):
                batch.execute()
        assert client.xlen("jobs") == 4
        client.connection_pool.disconnect()


def test_a_pool_that_waits_serves_more_threads_than_it_has_connections(target: Target, admin: Client) -> None:
    shared = redis.BlockingConnectionPool.from_url(target.url, max_connections=2, timeout=20, client_name="shared")
    with redis.Redis(connection_pool=shared) as client:
        together = threading.Barrier(8)

        def add(n: int) -> None:
            together.wait(20)
            for _ in range(20):
                client.xadd("jobs", {"n": n})

        with ThreadPoolExecutor(8) as threads:
            for adding in [threads.submit(add, n) for n in range(8)]:
                adding.result(20)
        assert client.xlen("jobs") == 160
        assert 1 <= [each["name"] for each in clients(admin)].count("shared") <= 2
        shared.disconnect()
