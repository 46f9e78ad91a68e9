"""Work on a whole store that cannot lock its file, or look at it: an error of ours, that names it."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import StorageError, Store
from diskstream.backups import make_backup
from diskstream.backups.placing import lock
from diskstream.checkpoints import Checkpoints
from diskstream.ingest.holding import importing
from diskstream.replaying.plans import PlanFile
from tests.engine.stand_ins import unlisted


def archive(store: Store) -> None:
    with Checkpoints(store).locked():
        pass


def load(store: Store) -> None:
    with importing(store, b"x", "key"):
        pass


def replay(store: Store) -> None:
    with PlanFile(store.path, b"writer").alone():
        pass


def back_up(store: Store) -> None:
    make_backup(store.path, store.path.with_name("backups"))


def restore(store: Store) -> None:
    fd = os.open(store.path, os.O_RDONLY)
    try:
        lock(fd, store.path)
    finally:
        os.close(fd)


@pytest.mark.parametrize("work", [archive, load, replay, back_up, restore], ids=lambda work: work.__name__)
def test_a_lock_that_is_refused_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Store], None]
) -> None:
    """It was a plain `OSError`, without the name of a file."""
    whole = fcntl.flock

    def failing(fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX | fcntl.LOCK_NB:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        whole(fd, operation)

    with diskstream.open(tmp_path / "s", fsync="os") as store:
        store.stream("x").add({"n": 1})
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", failing)
            with pytest.raises(StorageError, match="could not lock /"):
                work(store)
        work(store)


def test_a_folder_of_checkpoints_that_cannot_be_listed_is_told_of(tmp_path: Path) -> None:
    """It was a plain `OSError`."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        with unlisted(tmp_path / "s" / "archives"), pytest.raises(StorageError, match=r"could not list .*archives"):
            archive(store)
        archive(store)
