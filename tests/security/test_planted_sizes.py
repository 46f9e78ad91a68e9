"""Small files that somebody made pipes of, or giants of holes: nothing waits at them, fills memory or fills a disk."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream.backups import make_backup
from diskstream.engine.files import read_small
from tests.security.planted import a_store

GIANT_BYTES = 1 << 40
MEMORY_BYTES = 4 << 30  # of addresses: what is mapped for the view counts, too

CASES = {
    "inspect ctl": ("store/streams/s/ctl", ("inspect", "s", "--dir", "{}/store")),
    "inspect the view": ("store/view/epoch", ("inspect", "--dir", "{}/store")),
    "list backups": ("backups/backups.json", ("backup", "ls", "{}/backups")),
    "restore": ("backups/backups.json", ("restore", "{}/backups", "--to", "{}/restored")),
    "back up after one that was killed": (
        "backups/.new-0123/journal.jsonl",
        ("backup", "create", "{}/backups", "--dir", "{}/store"),
    ),
    "back up a manifest": (f"store/commits/{'a' * 64}/1.json", ("backup", "create", "{}/more", "--dir", "{}/store")),
    "back up a plan": (f"store/replays/{'a' * 64}/replay.json", ("backup", "create", "{}/more", "--dir", "{}/store")),
    "repair by a lease": ("store/leases/x/store.json", ("repair", "--force", "--dir", "{}/store")),
    "import": (
        f"store/imports/{'a' * 64}.json",
        ("import", "{}/store/store.json", "--format", "lines", "--stream", "t", "--dir", "{}/store"),
    ),
    "repair": ("store/store.json", ("repair", "--force", "--dir", "{}/store")),
}


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.mark.parametrize("how", ["pipe", "giant"])
@pytest.mark.parametrize("case", CASES)
def test_a_small_file_is_no_pipe_and_no_giant(tmp_path: Path, case: str, how: str) -> None:
    where, words = CASES[case]
    store = a_store(tmp_path / "store")
    make_backup(store, tmp_path / "backups")
    if case == "repair by a lease":
        (store / "store.json").write_text("damaged")
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if how == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, GIANT_BYTES)
    command = [sys.executable, "-m", "diskstream", *(word.format(tmp_path) for word in words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, preexec_fn=_limit
    )
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert "MemoryError" not in done.stderr
    taken = sum(each.stat().st_blocks * 512 for each in tmp_path.rglob("*") if each.is_file() and not each.is_symlink())
    assert taken < 64 << 20


def test_a_small_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"12345")
    assert read_small(path, 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, and not 4 at most"):
        read_small(path, 4)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none", 4)


def test_a_store_is_as_it_was_after_an_inspection_of_what_is_no_file(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    (store / "streams" / "s" / "ctl").unlink()
    os.mkfifo(store / "streams" / "s" / "ctl")
    with diskstream.open(store, read_only=True) as opened:
        assert len(opened.stream("s")) == 150
