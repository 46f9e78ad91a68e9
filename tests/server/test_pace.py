"""INFO says how much the server does a second, under the names that dashboards of Redis ask for."""

from pathlib import Path

import pytest

from diskstream.server.counts import Counts, Pace
from tests.server.client import Client, serving


def paces(pace: Pace) -> tuple[float, float, float]:
    return pace.commands, pace.bytes_in, pace.bytes_out


def test_it_is_what_was_counted_between_two_looks() -> None:
    """Over the time that really passed: a command that took long puts a look off."""
    counts = Counts(commands=1000)
    pace = Pace(counts, 10.0)
    assert paces(pace) == (0, 0, 0)
    counts.commands, counts.bytes_in, counts.bytes_out = 1100, 4000, 200
    pace.look(14.0)
    assert paces(pace) == (25, 1000, 50)


def test_an_idle_second_ends_it() -> None:
    counts = Counts()
    pace = Pace(counts, 0.0)
    counts.commands = 7
    pace.look(1.0)
    pace.look(2.0)
    assert paces(pace) == (0, 0, 0)


def test_two_looks_close_together_are_one() -> None:
    """What came in between is counted with the next."""
    counts = Counts()
    pace = Pace(counts, 0.0)
    counts.commands = 1
    pace.look(0.001)
    assert pace.commands == 0
    pace.look(1.0)
    assert pace.commands == 1


def test_info_tells_it_until_the_counts_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store") as server, Client.connected("127.0.0.1", server.port) as client:

        def told() -> dict[str, str]:
            lines = client.call("INFO", "stats").decode().splitlines()
            return dict(line.split(":", 1) for line in lines if line.startswith("instantaneous_"))

        monkeypatch.setattr(server.pace, "look", lambda _now: None)  # the server's own seconds pass meanwhile
        server.pace.commands, server.pace.bytes_in, server.pace.bytes_out = 41.6, 2048.0, 512.0
        names = ["ops_per_sec", "input_kbps", "output_kbps"]
        wanted = dict(zip((f"instantaneous_{name}" for name in names), ["42", "2.00", "0.50"], strict=True))
        assert told() == wanted
        client.call("CONFIG", "RESETSTAT")
        assert told() == dict(zip(wanted, ["0", "0.00", "0.00"], strict=True))
