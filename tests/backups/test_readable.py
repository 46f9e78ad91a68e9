"""A backup counts only when its manifest can be read: whatever the store was like, and whatever lay about in it."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.backups import (
    BackupError,
    Repository,
    Seen,
    Wanted,
    check_backup,
    find_backup,
    make_backup,
    making,
    manifest,
    read_manifest,
    restore,
)
from diskstream.store_files import Problem, verify_files
from tests.backups.world import filled, seen, seen_at

LINE_BYTES = 128 << 10  # docs/format/backup.md


def riddled(monkeypatch: pytest.MonkeyPatch, faults: int, what: str) -> None:
    """Lets the stream `x` of the next backup have so many faults, as one with as many damaged nodes has."""

    def verify(store: diskstream.Store, only: dict[bytes, set[str]]) -> diskstream.VerifyReport:
        report = verify_files(store, only)
        place = store.path / "streams/x/00000001.seg"
        report.problems += [Problem(b"x", place, 4096 * number, what) for number in range(faults)]
        return report

    monkeypatch.setattr(making, "verify_files", verify)


@pytest.mark.parametrize(("faults", "what"), [(4000, "damage"), (90, "\U0001f4a5" * 3000)], ids=["many", "long"])
def test_a_stream_with_many_faults_keeps_none_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: int, what: str
) -> None:
    """They all stood in one line, which was longer than a reader takes: sound streams could not be restored either."""
    with filled(tmp_path / "store") as store:
        riddled(monkeypatch, faults, what)
        made = make_backup(store.path, tmp_path / "backups")
    lines = (made.path / "backup.jsonl").read_bytes().splitlines(keepends=True)
    assert max(map(len, lines)) <= LINE_BYTES
    (damaged,) = [stream for stream in read_manifest(made.path).streams if stream.faults]
    assert damaged.faults == made.damaged[0].faults
    *told, more = damaged.faults
    assert 0 < len(told) <= 100
    assert told[0].startswith("00000001.seg at 0: ")
    assert more == f"and {faults - len(told):,} more"
    assert restore(find_backup(tmp_path / "backups"), tmp_path / "again", Wanted((b"empty",))).files > 0


def test_a_manifest_with_a_longer_line_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first versions wrote it."""
    monkeypatch.setattr(making, "bounded", tuple)
    riddled(monkeypatch, 4000, "damage")
    with filled(tmp_path / "store") as store:
        made = make_backup(store.path, tmp_path / "backups")
    assert max(map(len, (made.path / "backup.jsonl").read_bytes().splitlines())) > LINE_BYTES
    assert {finding.known for finding in check_backup(find_backup(tmp_path / "backups"), Seen())} == {True}
    restore(find_backup(tmp_path / "backups"), tmp_path / "again", Wanted(damaged=True))


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path / "store") as store:
        made = make_backup(store.path, tmp_path / "backups")
    monkeypatch.setattr(manifest, "_MAX_LINE_BYTES", 100)
    with pytest.raises(diskstream.CorruptionError, match="more than 100 bytes"):
        read_manifest(made.path)


def test_one_that_cannot_be_read_is_an_error_and_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups succeeded, one after another, and none of them could be restored."""

    def write_and_spoil(folder: Path, *rest: Any) -> None:
        manifest.write_manifest(folder, *rest)
        with (folder / "backup.jsonl").open("a") as file:
            file.write("{}\n")

    with filled(tmp_path / "store") as store:
        with monkeypatch.context() as patched:
            patched.setattr(making, "write_manifest", write_and_spoil)
            with pytest.raises(BackupError, match="cannot be read back") as refused:
                make_backup(store.path, tmp_path / "backups")
        assert refused.value.hint
        assert Repository.open(tmp_path / "backups").backups() == []
        assert seen_at(make_backup(store.path, tmp_path / "backups").path) == seen(store)
        assert Repository.open(tmp_path / "backups").unfinished() == []
