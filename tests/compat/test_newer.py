"""Options that Redis has since 8: a server of 7 cannot say what their replies are."""

from typing import Any

import pytest

from tests.compat.backends import Backend


def filled(backend: Backend, protocol: int | None) -> Any:
    client = backend.client(protocol=protocol)
    for number in range(1, 5):
        client.xadd("s", {"n": number}, id=f"{number}-1")
    client.xgroup_create("s", "g", id="0")
    client.xreadgroup("g", "ann", {"s": ">"}, count=3)
    return client


@pytest.mark.parametrize("protocol", [None, 2, 3])
def test_the_newer_methods(ours: Backend, protocol: int | None) -> None:
    client = filled(ours, protocol)
    assert client.xdelex("s", "4-1", "9-9", ref_policy="KEEPREF") == [1, -1]
    assert client.xackdel("s", "g", "1-1", "9-9", ref_policy="ACKED") == [1, -1]
    assert client.xnack("s", "g", "FAIL", "2-1", "9-9") == 1
    assert client.xcfgset("s", idmp_duration=5, idmp_maxsize=7) == b"OK"
    first = client.xadd("s", {"a": 1}, idmpauto="p")
    assert client.xadd("s", {"a": 1}, idmpauto="p") == first
    second = client.xadd("s", {"a": 1}, idmp=("p", b"1"))
    assert client.xadd("s", {"a": 2}, idmp=("p", b"1")) == second != first
    assert client.xtrim("s", maxlen=3, approximate=False, ref_policy="DELREF") == 1
    client.xadd("s", {"a": 1}, maxlen=2, approximate=False, ref_policy="DELREF")
    assert client.xlen("s") == 2


@pytest.mark.parametrize("protocol", [None, 2, 3])
def test_reading_claims(ours: Backend, protocol: int | None) -> None:
    client = filled(ours, protocol)
    found = client.xreadgroup("g", "bob", {"s": ">"}, claim_min_idle_time=0, count=2, max_size=1000)
    [entries] = found[b"s"] if protocol == 3 else [found[0][1]]
    (id, fields, idle, deliveries), _ = entries
    assert (id, fields, deliveries) == (b"1-1", {b"n": b"1"}, 1)
    assert 0 <= idle < 60_000


def test_a_read_of_several_streams_has_a_limit(ours: Backend) -> None:
    client = filled(ours, 3)
    client.xadd("t", {"a": 1}, id="1-1")
    assert client.xread({"s": "3-1", "t": "0"}, max_count=1) == {b"s": [[(b"4-1", {b"n": b"4"})]]}
