"""A key that goes while a command looks at it: its time has come, or another process removed it."""

from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours, Refused


class Passing:
    """A clock that goes on by a millisecond each time that it is asked."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.mark.parametrize("line", ["OBJECT ENCODING k", "MEMORY USAGE k", "DUMP k", "DEBUG DIGEST-VALUE k", "GET k"])
@pytest.mark.parametrize("life", range(1, 5))
def test_a_command_that_a_key_expires_under_finds_it_or_nothing(tmp_path: Path, line: str, life: int) -> None:
    """OBJECT ENCODING found no first element, and ended the server."""
    clock = Passing()
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        ours = Ours(keyspace)
        keyspace.put_values(0, b"k", "string", (b"v",))
        there = ours.run(line)
        keyspace.delete(0, b"k")
        gone = ours.run(line)
        keyspace.put_values(0, b"k", "string", (b"v",), expires=clock.now + life)
        assert ours.run(line) in (there, gone)


@pytest.mark.parametrize("line", ["OBJECT ENCODING k", "MEMORY USAGE k", "DUMP k", "DEBUG DIGEST-VALUE k", "GET k"])
@pytest.mark.parametrize("looks", range(3))
def test_a_command_that_another_process_takes_a_key_from_finds_it_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, looks: int
) -> None:
    """GET looked for what it had just seen, and ended the server."""
    with Keyspace(tmp_path / "data") as keyspace, Keyspace(tmp_path / "data") as other:
        ours, refresh, left = Ours(keyspace), keyspace._records.refresh, [looks]
        gone = ours.run(line)
        other.put_values(0, b"k", "string", (b"v",))
        there = ours.run(line)

        def refresh_behind_the_other() -> None:
            left[0] -= 1
            if left[0] < 0:
                other.delete(0, b"k")
            refresh()

        monkeypatch.setattr(keyspace._records, "refresh", refresh_behind_the_other)
        found = ours.run(line)
        assert found in (there, gone)
        assert not isinstance(found, Refused)


@pytest.mark.parametrize(
    "line", ["INCR k", "LPUSH k 1", "RPUSH k 1", "SADD k 1", "LPOP k", "SREM k 3", "SET k 7 KEEPTTL"]
)
@pytest.mark.parametrize("life", range(1, 6))
def test_what_is_written_at_the_moment_of_expiry_keeps_the_time_or_begins_anew(
    tmp_path: Path, line: str, life: int
) -> None:
    """INCR read the clock twice: it kept the value and lost the time of expiry."""
    clock, at = Passing(), (0, b"k")
    kind = {"I": "string", "S": "set"}.get(line[0], "list") if "KEEPTTL" not in line else "string"
    values = (b"5",) if kind == "string" else (b"3", b"4")
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        ours = Ours(keyspace)
        ours.run(line)
        anew = keyspace._records.known.get(at)
        keyspace.put_values(*at, kind, values)
        ours.run(line)
        kept = keyspace._records.known[at]
        keyspace.put_values(*at, kind, values, expires=clock.now + life)
        ours.run(line)
        found = keyspace._records.known.get(at)
    assert found == anew or (found is not None and (found.values == kept.values) == (found.expires is not None))


@pytest.mark.parametrize("life", range(1, 6))
def test_a_time_that_comes_while_it_is_asked_for_has_come_or_not(tmp_path: Path, life: int) -> None:
    """TTL said that the key had no time of expiry."""
    clock = Passing()
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        keyspace.put_values(0, b"k", "string", (b"v",), expires=clock.now + life)
        left = Ours(keyspace).run("PTTL k")
        assert left == -2 or 0 <= left <= life


@pytest.mark.parametrize("life", range(1, 9))
def test_a_transaction_has_one_time(tmp_path: Path, life: int) -> None:
    clock = Passing()
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        ours = Ours(keyspace)
        for line in ("MULTI", "GET k", "PTTL k", "EXISTS k", "GET k"):
            ours.run(line)
        keyspace.put_values(0, b"k", "string", (b"v",), expires=clock.now + life)
        value, left, there, again = ours.run("EXEC")
        assert (value, there, again) in ((b"v", 1, b"v"), (None, 0, None))
        assert (left == -2) == (value is None)
