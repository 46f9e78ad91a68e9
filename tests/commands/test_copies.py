"""Streams from one place into another: COPY, MOVE, DUMP and RESTORE carry all that they can."""

import dataclasses
import json
from typing import Any

import pytest

from diskstream import RetentionRule, Stream, copying
from diskstream.commands import dumps
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import OK, ErrorReply
from diskstream.group_info import FullInfo
from diskstream.retention_rule import write_rule
from tests.commands.conftest import Clock
from tests.commands.world import Ours, Refused


def fill(stream: Stream, clock: Clock) -> None:
    """A stream with something of everything."""
    for number in range(1, 21):
        stream.add([(b"n", b"%d" % number), (b"\xff\0", b""), (b"n", b"again")], f"{number}-{number}")
    stream.delete("20-20", "3-3")
    stream.set_id("30-0", entries_added=50)
    group = stream.create_group(b"g\xff", "0")
    group.consumer("first").read(count=8)
    clock.now += 1000
    group.consumer("second").read(count=4)
    group.consumer("second").claim("2-2", retry_count=7)
    clock.now += 1000
    group.create_consumer("idle")
    group.consumer("none found").read("99-0")
    group.nack("5-5", "1-1")
    group.ack("4-4")
    stream.delete("6-6")  # pending, and gone
    stream.create_group("at the end", "$", entries_read=44)
    stream.create_group("of the end of time", "5-0").set_id("+")
    stream.configure_idempotence(duration_s=77, max_size=9)
    stream.set_retention(max_entries=10**6, ref="ACKED")
    clock.now += 500


def state(keyspace: Keyspace, key: bytes, database: int = 0) -> tuple[FullInfo, Any]:
    stream = keyspace.stream(database, key)
    info = stream.info()
    # What was refused is counted by each opening for itself, and is no part of what is stored.
    return dataclasses.replace(stream.info_full(0), messages_duplicate=0), info.retention


def assert_same(one: tuple[FullInfo, Any], other: tuple[FullInfo, Any]) -> None:
    for mine, its in zip(one[0].groups, other[0].groups, strict=True):
        assert dataclasses.asdict(mine) == dataclasses.asdict(its)
    assert one == other


@pytest.mark.parametrize("how", ["copy", "copy to another", "move", "dump"])
def test_all_of_a_stream_is_carried(ours: Ours, keyspace: Keyspace, clock: Clock, how: str) -> None:
    fill(keyspace.stream(0, b"s"), clock)
    before = state(keyspace, b"s")
    if how == "copy":
        assert ours.run("COPY s t") == 1
        assert_same(state(keyspace, b"t"), before)
    elif how == "copy to another":
        assert ours.run("COPY s s DB 5") == 1
        assert_same(state(keyspace, b"s", 5), before)
    elif how == "move":
        assert ours.run("MOVE s 5") == 1
        assert_same(state(keyspace, b"s", 5), before)
        assert ours.run("EXISTS s") == 0
        return
    else:
        payload = ours.raw(b"DUMP", b"s")
        assert ours.raw(b"RESTORE", b"t", b"0", payload) == OK
        assert_same(state(keyspace, b"t"), before)
    assert_same(state(keyspace, b"s"), before)
    assert keyspace.store(0).streams(unfinished=True) == keyspace.store(0).streams()


def test_a_copy_goes_its_own_way(ours: Ours, keyspace: Keyspace, clock: Clock) -> None:
    fill(keyspace.stream(0, b"s"), clock)
    ours.run("COPY s t")
    assert ours.run("DEBUG DIGEST-VALUE s") == ours.run("DEBUG DIGEST-VALUE t")
    group = keyspace.stream(0, b"t").group(b"g\xff", create=False)
    assert [entry.id.ms for entry in group.consumer("first").read(count=2)] == [14, 15]
    keyspace.stream(0, b"t").add({"f": "1"}, "30-1")
    assert ours.run("DEBUG DIGEST-VALUE s") != ours.run("DEBUG DIGEST-VALUE t")
    assert len(keyspace.stream(0, b"s")) == 17
    assert group.pending().total == keyspace.stream(0, b"s").group(b"g\xff", create=False).pending().total + 2


def test_what_others_write_during_a_move_is_not_lost(
    ours: Ours, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = keyspace.stream(0, b"s")
    stream.add({"f": "1"}, "1-0")
    copy = copying.copy_stream
    left = [2]

    def copy_and_write(source: Stream, target: Stream) -> None:
        copy(source, target)
        if left[0]:
            left[0] -= 1
            stream.add({"f": "1"})

    monkeypatch.setattr("diskstream.commands.key_moves.copy_stream", copy_and_write)
    assert ours.run("MOVE s 1") == 1
    assert len(keyspace.stream(1, b"s")) == 3
    assert ours.run("EXISTS s") == 0
    stream.add({"f": "1"})
    ours.run("SELECT 1")
    ours.run("RENAME s t")
    ours.run("SELECT 0")
    left[0] = 1000
    reply = ours.run("MOVE s 1")
    assert reply == Refused(b"ERR the stream is being written to by another process: try again")
    assert len(keyspace.stream(0, b"s")) == 1 + 1000 - left[0]
    assert keyspace.names(1) == [b"t"]
    for database in (0, 1):
        assert keyspace.store(database).streams(unfinished=True) == keyspace.store(database).streams()


def test_an_empty_stream_is_a_stream(ours: Ours, keyspace: Keyspace) -> None:
    keyspace.stream(0, b"s").add({"f": "1"}, "7-7", maxlen=0)
    assert ours.run("COPY s t") == 1
    info = keyspace.stream(0, b"t").info()
    assert (info.length, str(info.last_generated_id), info.entries_added, info.groups) == (0, "7-7", 1, 0)


def test_more_than_one_frame_of_everything(ours: Ours, keyspace: Keyspace, clock: Clock) -> None:
    stream = keyspace.stream(0, b"s")
    stream.add_many([{"f": "1"}] * 9000)
    stream.group("g", start="0").consumer("c").read(count=8500)
    group = stream.group("g")
    group.nack(*[entry.id for entry in stream.range("-", "+", 4200)])
    before = state(keyspace, b"s")
    assert ours.run("COPY s t") == 1
    assert state(keyspace, b"t") == before


def test_what_is_there_stays_unless_it_may_go(ours: Ours, keyspace: Keyspace, clock: Clock) -> None:
    fill(keyspace.stream(0, b"s"), clock)
    ours.run("SET t 1")
    payload = ours.raw(b"DUMP", b"s")
    assert ours.run("COPY s t") == 0
    assert ours.raw(b"RESTORE", b"t", b"0", payload) == ErrorReply(b"BUSYKEY Target key name already exists.")
    assert ours.run("TYPE t") == b"string"
    assert ours.raw(b"RESTORE", b"t", b"1000", payload, b"REPLACE") == OK
    assert ours.run("PTTL t") == 1000
    assert ours.run("COPY s t REPLACE") == 1
    assert ours.run("PTTL t") == -1
    at = b"%d" % (clock.now + 5)
    assert ours.raw(b"RESTORE", b"t", at, payload, b"REPLACE", b"ABSTTL", b"IDLETIME", b"3") == OK
    assert ours.run("PTTL t") == 5
    assert ours.raw(b"RESTORE", b"t", b"1", payload, b"REPLACE", b"ABSTTL") == OK
    assert ours.run("EXISTS t") == 0


@pytest.mark.parametrize("life", [b"9223372036854775807", b"9223372036854775000"])
def test_no_time_of_expiry_is_beyond_what_a_client_can_be_told(ours: Ours, keyspace: Keyspace, life: bytes) -> None:
    """PEXPIRETIME answered with a number that no signed one of 64 bits holds."""
    keyspace.stream(0, b"s").add({"f": "1"}, "1-1")
    payload = ours.raw(b"DUMP", b"s")
    refused = ErrorReply(b"ERR invalid expire time in 'restore' command")
    assert ours.raw(b"RESTORE", b"s", life, payload, b"REPLACE") == refused
    assert ours.run("XLEN s") == 1, "what is there goes only for what takes its place"
    assert ours.raw(b"RESTORE", b"s", life, payload, b"REPLACE", b"ABSTTL") == OK
    assert ours.run("PEXPIRETIME s") == int(life)


@pytest.mark.parametrize("line", ["SET k value", "RPUSH k a b", "SADD k x y"])
def test_other_types_are_dumped_too(ours: Ours, line: str) -> None:
    ours.run(line)
    payload = ours.raw(b"DUMP", b"k")
    assert ours.raw(b"RESTORE", b"t", b"0", payload) == OK
    assert ours.run("DEBUG DIGEST-VALUE k") == ours.run("DEBUG DIGEST-VALUE t")
    assert ours.run("COPY k u") == 1
    assert ours.run("TYPE u") == ours.run("TYPE k")


def test_no_byte_of_a_payload_may_be_another(ours: Ours, keyspace: Keyspace, clock: Clock) -> None:
    keyspace.stream(0, b"s").add({"f": "1"}, "1-1")
    payload: bytes = ours.raw(b"DUMP", b"s")
    refused = ErrorReply(b"ERR DUMP payload version or checksum are wrong")
    for at in range(len(payload)):
        damaged = bytearray(payload)
        damaged[at] ^= 1
        assert ours.raw(b"RESTORE", b"t", b"0", bytes(damaged)) == refused
        assert ours.raw(b"RESTORE", b"t", b"0", payload[:at]) == refused


BODIES: list[Any] = [
    *[None, [], {}, {"kind": "hash"}, {"kind": "string"}, {"kind": "list", "values": [1]}],
    {"kind": "string", "values": ["\u0100"]},
    {"kind": "stream"},
    *[
        {
            "kind": "stream",
            "last": [1, 1],
            "added": 1,
            "deleted": [0, 0],
            "windows": [100, 100],
            "groups": [],
            "entries": [[[1, 1], ["f", "1"]]],
            **wrong,
        }
        for wrong in (
            {"last": [0, 1]},
            {"last": [-1, 1]},
            {"last": [1 << 64, 1]},
            {"last": "1-1"},
            {"added": 0},
            {"added": -5},
            {"added": 1 << 70},
            {"deleted": [9, 9]},
            {"windows": [0, 0]},
            {"entries": [[[1, 1], ["f"]]]},
            {"entries": [[[1, 1], []]]},
            {"entries": [[[1, 1], ["f", "1"]], [[1, 1], ["f", "1"]]]},
            {"groups": [["g", [1, 1], None, [], [[[1, 1], 0, 5, 1]]]]},
            {"groups": [["g", [1, 1], None, [["c", 5, None]], [[[1, 1], 0, -5, 1]]]]},
            {"groups": [["g", [1, 1], -3, [["c", 5, None]], []]]},
            {"groups": [["g", [1, 1], None, [["c", -1, None]], []]]},
            {"groups": [["g", [1, 1], None, [["c", 5, "x"]], []]]},
            {"groups": [["g", [1, 1], None, [], []], ["g", [1, 1], None, [], []]]},
            {"groups": [["g", [1, 1], None, [["c", 5, 5]], [[[2, 1], 0, 5, 1], [[1, 1], 0, 5, 1]]]]},
        )
    ],
]


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_a_payload_with_a_right_checksum_may_still_be_wrong(ours: Ours, keyspace: Keyspace, body: Any) -> None:
    reply = ours.raw(b"RESTORE", b"t", b"0", dumps._pack(body))
    assert reply == ErrorReply(b"ERR Bad data format")
    assert keyspace.store(0).streams(unfinished=True) == []


def test_a_stream_may_be_too_large_to_dump(ours: Ours, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "MAX_DUMP_BYTES", 1000)
    keyspace.stream(0, b"s").add_many([{"f": "x" * 100}] * 20)
    reply = ours.run("DUMP s")
    assert isinstance(reply, Refused)
    assert reply == b"ERR the key is over the limit of DUMP, 1000 bytes as JSON: use COPY"


@pytest.mark.parametrize(
    "setting",
    [
        ["retention", '{"max_entries":1,"to":"file:///somewhere"}'],
        ["retention", '{"max_entries":1,"max_cost":1}'],
        ["retention", '{"max_entries":0}'],
        ["retention", "no JSON"],
        ["another", "1"],
        ["retention"],
        "retention",
        7,
    ],
)
def test_a_client_restores_no_setting_that_is_the_operators_or_unknown(
    ours: Ours, keyspace: Keyspace, setting: Any
) -> None:
    stream = keyspace.stream(0, b"s")
    stream.add({"n": 1}, "1-0")
    body = {**dumps._body(stream), "settings": [setting]}
    assert ours.raw(b"RESTORE", b"t", b"0", dumps._pack(body)) == ErrorReply(b"ERR Bad data format")
    assert keyspace.kind(0, b"t") is None


def test_a_rule_that_names_a_place_stays_behind(ours: Ours, keyspace: Keyspace) -> None:
    stream = keyspace.stream(0, b"s")
    stream.add({"n": 1}, "1-0")
    stream._use(write_rule(RetentionRule(max_entries=1, to="file:///somewhere")), None)
    assert b"somewhere" not in json.dumps(dumps._body(stream)).encode()
    assert ours.raw(b"RESTORE", b"t", b"0", dumps.dump_stream(stream)) == OK
    assert keyspace.stream(0, b"t").retention is None
