"""Damage that was not survived as it should be, each with its story."""

import os
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, StorageError
from diskstream.commands.keyspace import Keyspace
from tests.engine.sample import SMALL, log_of


def test_a_byte_in_the_zeros_behind_a_rolled_log_is_no_damaged_frame(tmp_path: Path) -> None:
    """Entries were read and verify found nothing; only the audit took it for a frame, and broke off."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        stream.group("g", start="0").consumer("ann").read()
        log_of(store).roll()
        stream.add({"n": "2"})
        before = list(stream.audit())
    rolled = tmp_path / "s" / "streams" / "x" / "00000001.log"
    data = bytearray(rolled.read_bytes())
    end = len(bytes(data).rstrip(b"\0"))
    data[end + 8 - end % 8 + 5] = 4
    rolled.write_bytes(data)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert store.verify().ok
        assert list(store.stream("x").audit()) == before
        assert store.seal() == 2
        assert list(store.stream("x").audit()) == before


def test_an_empty_log_is_damage_and_not_an_error_of_the_system(tmp_path: Path) -> None:
    """Opening it for writing failed with ENXIO: there is no hole to be sought in an empty file."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    log = tmp_path / "s" / "streams" / "x" / "00000001.log"
    os.truncate(log, 0)
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(CorruptionError, match="00000001.log"):
        list(store.stream("x").range())


def test_a_log_that_is_a_link_to_nothing_is_an_error_of_ours(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    log = tmp_path / "s" / "streams" / "x" / "00000001.log"
    log.unlink()
    log.symlink_to(tmp_path / "nowhere")
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(StorageError, match="00000001.log"):
        list(store.stream("x").range())


def test_a_description_that_is_no_text_does_not_keep_verify_from_its_report(tmp_path: Path) -> None:
    """It ended with UnicodeDecodeError, where a segment in cold storage was to be read."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    (tmp_path / "s" / "store.json").write_bytes(b"\x9b" * 100)
    report = diskstream.verify(tmp_path / "s", cold=True)
    assert [problem.path.name for problem in report.problems] == ["store.json"]


def test_keys_in_whose_place_another_streams_log_stands_are_not_forgotten(tmp_path: Path) -> None:
    """What it held was no change of keys, and was passed over: all expiry times were gone in silence."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    with Keyspace(tmp_path / "s", **SMALL):
        pass
    kept = tmp_path / "s" / "keys" / "streams" / "keys" / "00000001.log"
    kept.write_bytes((tmp_path / "s" / "streams" / "x" / "00000001.log").read_bytes())
    with pytest.raises(CorruptionError, match="keys.*a change of what is known of keys"):
        Keyspace(tmp_path / "s", **SMALL)


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", "users", "epoch"])
@pytest.mark.parametrize("what", ["a directory", "a link to itself"])
def test_what_is_no_file_in_the_view_is_found_by_verify_and_removed_by_repair(
    tmp_path: Path, name: str, what: str
) -> None:
    """Groups could not be used, and verify found nothing."""
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        store.stream("x").add_many([{"n": str(number)} for number in range(9)])
        store.stream("x").group("g", start="0").consumer("ann").read()
    place = tmp_path / "s" / "view" / name
    place.unlink()
    if what == "a directory":
        place.mkdir()
    else:
        place.symlink_to(place)
    assert [problem.path.parent.name for problem in diskstream.verify(tmp_path / "s").problems] == ["view"]
    list(diskstream.repair(tmp_path / "s"))
    assert diskstream.verify(tmp_path / "s").ok
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        assert len(store.stream("x").group("g").pending_range()) == 9
