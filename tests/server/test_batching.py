"""Runs of XADDs of several clients: one frame, or, where they are too much for one, as many as there are runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diskstream import DiskFullError, Stream
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import ErrorReply, Raw
from diskstream.commands.wire import AddRun, RequestParser
from diskstream.server.batching import AddBatch
from tests.server.client import packed


def run_of(*values: bytes) -> AddRun:
    (run,) = RequestParser(runs=True).feed(b"".join(packed("XADD", "s", "*", "v", value) for value in values))
    assert isinstance(run, AddRun)
    return run


def client() -> Any:
    return SimpleNamespace(caller=SimpleNamespace(database=0), protocol=2)


def test_runs_that_do_not_fit_into_one_frame_are_one_each(tmp_path: Path) -> None:
    large = b"x" * (24 << 20)
    with Keyspace(tmp_path / "store", fsync="os") as keyspace:
        stream = keyspace.stream(0, b"s")
        runs = [run_of(large, b"1"), run_of(large, b"2"), run_of(large, b"3")]
        assert stream.add_runs(runs) is None
        assert not stream.exists()
        batch = AddBatch(keyspace, lambda *_: pytest.fail("no command was to be run alone"))
        for run in runs:
            assert batch.take(client(), run)
        replies = b"".join(reply.data for reply in batch.run()[1])
        assert replies.count(b"$") == len(stream) == 6
        assert [entry["v"] for entry in stream.range()][1::2] == [b"1", b"2", b"3"]


def test_each_entry_counts_as_a_command(tmp_path: Path) -> None:
    """Of several runs, and of a single one."""
    with Keyspace(tmp_path / "store", fsync="os") as keyspace:
        batch = AddBatch(keyspace, lambda *_: pytest.fail("no command was to be run alone"))
        for runs in ([run_of(b"1", b"2"), run_of(b"3")], [run_of(b"4", b"5")]):
            for run in runs:
                assert batch.take(client(), run)
            batch.run()
        assert keyspace.statistics.of("xadd").calls == 5


def test_an_error_of_one_run_does_not_add_those_before_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[list[bytes]] = []

    def alone(_: object, words: list[bytes]) -> ErrorReply:
        again.append(words)
        return ErrorReply(b"MISCONF")

    def full_at_the_second(stream: Stream, run: AddRun) -> bytes:
        if run.commands()[0][-1] == b"2":
            raise DiskFullError("s", "write", 28, "no room")
        return real(stream, run)

    real = Stream.add_run
    monkeypatch.setattr(Stream, "add_runs", lambda *_: None)
    monkeypatch.setattr(Stream, "add_run", full_at_the_second)
    with Keyspace(tmp_path / "store", fsync="os") as keyspace:
        batch = AddBatch(keyspace, alone)
        for value in (b"1", b"2", b"3"):
            batch.take(client(), run_of(value))
        kinds = [type(reply) for reply in batch.run()[1]]
        assert kinds == [Raw, ErrorReply, Raw]
        assert [words[-1] for words in again] == [b"2"]
        assert [entry["v"] for entry in keyspace.stream(0, b"s").range()] == [b"1", b"3"]
