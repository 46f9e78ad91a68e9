"""Damage that was not survived as it should be, each with its story."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import ChangedError, CorruptionError, NewerFormatError, StorageError
from diskstream.commands.keyspace import Keyspace
from diskstream.replaying.plans import Plan
from diskstream.spark import commit
from diskstream.spark.staging import StagedBatch, StagedFile
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
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(CorruptionError, match=r"00000001\.log"):
        list(store.stream("x").range())


def test_a_log_that_is_a_link_to_nothing_is_an_error_of_ours(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    log = tmp_path / "s" / "streams" / "x" / "00000001.log"
    log.unlink()
    log.symlink_to(tmp_path / "nowhere")
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(StorageError, match=r"00000001\.log"):
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
    with pytest.raises(CorruptionError, match=r"keys.*a change of what is known of keys"):
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
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        assert [problem.path.parent.name for problem in store.verify().problems] == ["view"]
    list(diskstream.repair(tmp_path / "s"))
    assert diskstream.verify(tmp_path / "s").ok
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        assert len(store.stream("x").group("g").pending_range()) == 9


def every_flip(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        yield bytes(changed)


def test_a_digit_of_the_last_version_that_is_done_is_not_believed(tmp_path: Path) -> None:
    """Another digit, and versions would be passed over whose rows were never appended."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        commit.commit(store, commit.Manifest("w", 7, given=False, files=()))
        assert commit.last_done(store, "w") == 7
        (done,) = (tmp_path / "s").glob("commits/*/done.json")
        for changed in every_flip(done.read_bytes()):
            done.write_bytes(changed)
            with contextlib.suppress(StorageError):
                assert commit.last_done(store, "w") == 7


def test_a_manifest_of_rows_and_a_plan_of_a_replay_are_not_believed_with_a_changed_digit(tmp_path: Path) -> None:
    staged = StagedFile(f"staging/job/{0:032x}.arrow", 3, (StagedBatch("x", 12, (1, 0), (12, 0)),))
    manifest = commit.Manifest("w", 7, given=True, files=(staged,))
    assert commit.Manifest.from_json(manifest.as_json()) == manifest
    plan = Plan("/store", "x", ("-", "+"), (), "keep", "redis://there", "1-0", "99-0")
    assert Plan.from_json(plan.as_json(), "plan") == plan
    for changed in every_flip(manifest.as_json().encode()):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            assert commit.Manifest.from_json(changed.decode("latin-1")) == manifest
    for changed in every_flip(plan.as_json().encode()):
        with contextlib.suppress(ChangedError, NewerFormatError):
            assert Plan.from_json(changed, "plan") == plan
