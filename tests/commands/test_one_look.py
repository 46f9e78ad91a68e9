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
