"""A manifest of this format with members that this version does not know: they are passed over, and are no damage."""

import hashlib
import json
from pathlib import Path

import pytest

from diskstream import NewerFormatError
from diskstream.backups import Seen, check_backup, find_backup, make_backup, read_manifest, restore
from tests.backups.world import filled, seen, seen_at


def written_by_a_later_version(backup: Path, version: int = 1) -> bytes:
    """The manifest of a backup as a later version might have written it."""
    path = backup / "backup.jsonl"
    header, *lines, _ = map(json.loads, path.read_bytes().splitlines())
    header |= {"format": version, "host": "a"}
    for line in lines:
        next(iter(line.values()))["later"] = {"a": 1}
    body = b"".join(json.dumps(line).encode() + b"\n" for line in [header, *lines])
    data = body + json.dumps({"end": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    path.write_bytes(data)
    return data


def test_a_backup_with_unknown_members_is_read_and_restored(tmp_path: Path) -> None:
    """It was taken for damaged."""
    with filled(tmp_path / "store") as store:
        expected = seen(store)
        made = make_backup(store.path, tmp_path / "backups")
        written_by_a_later_version(made.path)
        assert list(check_backup(find_backup(tmp_path / "backups"), Seen())) == []
        restore(find_backup(tmp_path / "backups"), tmp_path / "restored")
        assert make_backup(store.path, tmp_path / "backups").shared_bytes
    assert seen_at(tmp_path / "restored") == expected


def test_one_of_a_later_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    with filled(tmp_path / "store") as store:
        made = make_backup(store.path, tmp_path / "backups")
    data = written_by_a_later_version(made.path, version=2)
    with pytest.raises(NewerFormatError, match="upgrade"):
        read_manifest(made.path)
    with pytest.raises(NewerFormatError, match="upgrade"):
        restore(find_backup(made.path), tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert (made.path / "backup.jsonl").read_bytes() == data
