"""What backups share is read once in thirty days: rot of one reaches no other for longer, and is told of."""

import errno
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from diskstream import Store
from diskstream.backups import Made, Seen, check_backup, find_backup, make_backup
from diskstream.backups.manifest import Kept
from diskstream.backups.sharing import Donors, _is_due
from diskstream.cli import main
from diskstream.errors import StorageError
from diskstream.store_files import Copied, digest_file
from tests.backups.world import bulky, flip_in_place

DAY_MS = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with bulky(tmp_path / "store") as store:
        yield store


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def later(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """From now on the clock of backups says so many days more."""
    real = time.time_ns
    monkeypatch.setattr("diskstream.backups.making.time.time_ns", lambda: real() + days * DAY_MS * 1_000_000)


def sealed(made: Made) -> list[Path]:
    return sorted(made.path.glob("streams/x/*.seg"))


@pytest.mark.parametrize("is_readable", [True, False])
def test_rot_of_what_is_shared_is_found_and_goes_no_further(
    store: Store, target: Path, monkeypatch: pytest.MonkeyPatch, is_readable: bool
) -> None:
    """Each later backup had the rotted file as well, and counted as sound: only `verify` told."""
    first = make_backup(store.path, target)
    bad = sealed(first)[1]
    flip_in_place(bad, 9000)

    def read(path: Path, *rest: object) -> Copied:
        if path == bad and not is_readable:
            raise StorageError(str(path), "read", errno.EIO, "Input/output error")
        return digest_file(path, *rest)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr("diskstream.backups.sharing.digest_file", read)
    later(monkeypatch, 31)
    second = make_backup(store.path, target)
    assert second.rotted == (bad,)
    assert not second.damaged
    assert check_backup(find_backup(second.path), Seen()) == []
    assert second.header.new_bytes < second.header.size_bytes, "the others are shared"


def test_the_command_says_so(store: Store, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["backup", "create", str(target), "--dir", str(store.path), "--json"]
    runner = CliRunner()
    assert json.loads(runner.invoke(main, words).stdout)["rotted"] == []
    bad = min(target.glob("2*/streams/x/*.seg"))
    flip_in_place(bad, 9000)
    later(monkeypatch, 31)
    done = runner.invoke(main, words)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["rotted"] == [str(bad)]
    assert f"{bad}: it is not what it was" in " ".join(done.stderr.split())
    assert runner.invoke(main, words).exit_code == 0


def test_it_is_read_when_it_is_time(store: Store, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_backup(store.path, target)
    read: list[Path] = []
    real = Donors._is_sound

    def noting(self: Donors, donor: Path, kept: Kept) -> bool:
        read.append(donor)
        return real(self, donor, kept)

    monkeypatch.setattr(Donors, "_is_sound", noting)
    make_backup(store.path, target)
    assert read == []
    later(monkeypatch, 31)
    make_backup(store.path, target)
    assert {each.name for each in sealed(made)} < {each.name for each in read}


@pytest.mark.parametrize("every", [DAY_MS, DAY_MS // 24, 7 * DAY_MS, 30 * DAY_MS - 1])
@pytest.mark.parametrize("sha256", ["0" * 64, "f" * 64, "123456789abc" + "0" * 52, "a" * 64])
def test_each_has_its_turn_once_whatever_lies_between_two_backups(every: int, sha256: str) -> None:
    kept = Kept("streams/x/00000001.seg", 1, sha256)
    begin = 1_764_000_000_123
    times = range(begin, begin + 300 * DAY_MS, every)
    due = [now for since, now in pairwise(times) if _is_due(kept, since, now)]
    assert 8 <= len(due) <= 11
    assert all(after - before <= 30 * DAY_MS + every for before, after in pairwise(due))


def test_a_clock_that_went_back_makes_nothing_due() -> None:
    assert not _is_due(Kept("streams/x/00000001.seg", 1, "a" * 64), 1_764_000_000_123, 1_763_000_000_123)
