"""What fails leaves no file behind that nobody would ever remove: those with a name by chance, nobody looks for."""

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import Options, StorageError
from diskstream.engine import quarantine, repair_store
from diskstream.engine.files import Files
from diskstream.replaying import plans
from tests.engine.sample import SMALL
from tests.engine.stand_ins import Watched, failure

STEPS = ("write", "sync", "rename", "link")


def failing(step: str) -> Files:
    """Files of which the first step of a kind fails."""
    failed = list[Path]()

    def fail(kind: str, path: Path) -> None:
        if kind == step and not failed:
            failed.append(path)
            raise failure(path, kind, errno.EIO)

    return Watched(fail)


def make(path: Path, files: Files) -> None:
    diskstream.open(path / "s", **SMALL, files=files).close()


def keep(path: Path, files: Files) -> None:
    (path / "damaged").write_bytes(b"what is kept")
    quarantine.keep(path / "damaged", path / "quarantine", files)


def write_down(path: Path, files: Files) -> None:
    file = plans.PlanFile(path, b"writer")
    file._files = files
    with file.alone():
        file.write(plans.Plan.__new__(plans.Plan))


def describe_again(path: Path, files: Files) -> None:
    (path / "s" / "streams").mkdir(parents=True, exist_ok=True)
    wishes = repair_store.Wishes()
    list(repair_store.repair_store(path / "s", files, Options(), wishes, lambda *_: None, dry_run=False))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("work", [make, keep, write_down, describe_again], ids=lambda work: work.__name__)
def test_a_temporary_file_goes_with_what_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path, Files], None], step: str
) -> None:
    monkeypatch.setattr(plans.Plan, "as_json", lambda _: "{}")
    with contextlib.suppress(StorageError):
        work(tmp_path, failing(step))
    assert not list(tmp_path.rglob("*.tmp"))
    work(tmp_path, Files())
    assert not list(tmp_path.rglob("*.tmp"))
