"""XREADGROUP that waits looks again by itself, where another process may have what it waits for, and leave it."""

import pytest

from diskstream.commands.caller import Caller
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.stream_group_reading import GroupRead
from diskstream.commands.stream_read_options import parse_read


def looks_again_in_s(caller: Caller, monkeypatch: pytest.MonkeyPatch, *options: bytes) -> float | None:
    """When it looks again, in seconds from now."""
    words = [b"xreadgroup", b"group", b"g", b"a", b"block", b"0", *options, b"streams", b"x", b">"]
    reading = GroupRead(caller, words, parse_read(words, grouped=True))
    monkeypatch.setattr("diskstream.commands.stream_group_reading.time.monotonic", lambda: 0.0)
    try:
        return reading.ripe_at()
    finally:
        monkeypatch.undo()


def test_it_looks_again_though_nothing_is_pending(
    caller: Caller, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept on for ever over what another process was given, and died with."""
    keyspace.stream(0, b"x").group("g", start="0")
    assert looks_again_in_s(caller, monkeypatch, b"claim", b"5000") == 5.0
    assert looks_again_in_s(caller, monkeypatch, b"claim", b"0") == 0.1


def test_without_claim_it_waits_for_what_is_added(
    caller: Caller, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyspace.stream(0, b"x").group("g", start="0")
    assert looks_again_in_s(caller, monkeypatch) is None


def test_what_is_left_to_others_is_looked_at_again(
    caller: Caller, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyspace.stream(0, b"x").group("g", start="0")
    keyspace.stream(0, b"x").add({"n": "1"})
    assert looks_again_in_s(caller, monkeypatch) == 0.1
