"""What a client meets, and who runs the server must know of, is in the log; and each thing once a minute."""

import errno
from pathlib import Path
from typing import NoReturn

import pytest

import diskstream
from diskstream import StorageError
from diskstream.commands import troubles
from diskstream.commands.troubles import Troubles
from tests.server.client import Client, serving


def test_damaged_data_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"n": n} for n in range(100)])
        store.stream("s").add({"n": "behind"})
    with (tmp_path / "store/streams/s/00000001.log").open("r+b") as file:
        file.seek(4096 + 300)
        file.write(b"rot")
    with (
        caplog.at_level("WARNING", "diskstream.server"),
        serving(tmp_path / "store") as server,
        Client.to(server) as client,
    ):
        told = [str(client.call("XADD", "s", "*", "n", "1")) for _ in range(3)]
    assert all("met damaged data" in text and "00000001.log" in text for text in told)
    assert "Store." not in told[0]  # which a client cannot call
    assert told[0].endswith("`diskstream verify` lists all that is damaged")
    assert [record.getMessage() for record in caplog.records if "00000001.log" in record.getMessage()] == [
        "damaged: " + told[0].partition(" met damaged data: ")[2]
    ]


def test_what_goes_on_is_told_again_and_not_at_once(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    found = Troubles(lambda: now)
    with caplog.at_level("WARNING", "diskstream.server"):
        for _ in range(3):
            found.met(b"MISCONF Errors writing to the store: full")
            found.wrote()
            assert found.writes_fail  # a small one that found a place
        for _ in range(2):
            now += troubles._AGAIN_S
            found.wrote()
            assert not found.writes_fail
            found.met(b"MISCONF Errors writing to the store: full")
        now += troubles._QUIET_S
        found.wrote()
        found.met(b"ERR syntax error")
        for number in range(2 * troubles._MOST_KINDS):
            found.met(b"ERR 'xadd' met damaged data: file %d" % number)
    said = [record.getMessage() for record in caplog.records]
    assert said[:4] == ["writes fail: Errors writing to the store: full", "writes go on"] * 2
    assert said[4:6] == said[:2]
    assert len(said) == 6 + troubles._MOST_KINDS - 1


def test_a_store_that_was_moved_away_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level("WARNING", "diskstream.server"),
        serving(tmp_path / "store") as server,
        Client.to(server) as client,
    ):
        (tmp_path / "store").rename(tmp_path / "away")
        told = [str(client.call("XADD", "new", "*", "n", "1")) for _ in range(3)]
        (tmp_path / "away").rename(tmp_path / "store")
    assert all("the store is not there any more" in text for text in told)
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if "not there any more" in text] == [f"failed: {told[0].removeprefix('ERR ')}"]


def test_what_could_not_be_read_is_no_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad block of an old segment: INFO, the metrics and the log said that the disk takes no writes."""

    def fails(*_of: object) -> NoReturn:
        raise StorageError("00000001.seg", "read", errno.EIO, "Input/output error")

    with (
        caplog.at_level("WARNING", "diskstream.server"),
        serving(tmp_path / "store") as server,
        Client.to(server) as client,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(server.keyspace, "stream", fails)
            told = str(client.call("XRANGE", "s", "-", "+"))
        assert told == "ERR could not read 00000001.seg: Input/output error"
        assert not server.keyspace.troubles.writes_fail
        assert b"aof_last_write_status:ok" in client.call("INFO", "persistence")
    assert [record.getMessage() for record in caplog.records] == ["failed: " + told.removeprefix("ERR ")]
