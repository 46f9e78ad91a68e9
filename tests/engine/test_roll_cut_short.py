"""A roll that is stopped behind its rename: the next segment is there, so nobody appends to the one before."""

from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import PoisonedError, StorageError, Store
from diskstream.engine.files import Files
from tests.engine.sample import SMALL, as_if_killed

POLICIES = ("always", "everysec", "os")


class Stopped(Files):
    """Raises once behind one of the calls that a roll makes; what was called has happened."""

    def __init__(self, call: str, error: Callable[[], BaseException]) -> None:
        self.call, self.error, self.armed = call, error, False

    def _done(self, call: str, path: Path) -> None:
        if self.armed and call == self.call:
            self.armed = False
            raise self.error()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._done("rename", target)

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self._done("sync_dir", path)


def opened(path: Path, files: Files | None, fsync: str) -> Store:
    return diskstream.open(path, **{**SMALL, "fsync": fsync, "seal": "manual"}, files=files or Files())


def rolls(store: Store) -> None:
    store.stream("x").seal()


def adds_what_fits_no_more(store: Store) -> None:
    store.stream("x").add({"n": "x" * 8000})


@pytest.mark.parametrize("fsync", POLICIES)
@pytest.mark.parametrize("call", ["rename", "sync_dir"])
@pytest.mark.parametrize("work", [rolls, adds_what_fits_no_more])
@pytest.mark.parametrize("ends", ["closes", "ends as if killed"])
def test_who_was_interrupted_goes_on_and_loses_nothing(
    tmp_path: Path, fsync: str, call: str, work: Callable[[Store], None], ends: str
) -> None:
    files = Stopped(call, KeyboardInterrupt)
    store = opened(tmp_path / "s", files, fsync)
    stream = store.stream("x")
    group = stream.group("g", start="0")
    for number in range(6):
        stream.add({"n": number})
    given = [entry.id for entry in group.consumer("c").read(count=6)]
    files.armed = True
    with pytest.raises(KeyboardInterrupt):
        work(store)
    assert not files.armed
    later = stream.add_many([{"n": number} for number in range(6, 8)]) + stream.add_many([{"n": 8}])
    group.ack(*given[:4])
    stream.delete(given[0])
    if ends == "closes":
        store.close()
    else:
        as_if_killed(store)
    with opened(tmp_path / "s", None, fsync) as again:
        kept = again.stream("x")
        assert [entry.id for entry in kept.range()] == [*given[1:], *later]
        assert [each.id for each in kept.group("g", create=False).pending_range()] == given[4:]
        assert kept.add_many([{"n": "next"}])[0] > max(later)
        assert again.verify().problems == []


@pytest.mark.parametrize("fsync", POLICIES)
def test_who_opens_what_a_failing_directory_poisoned_goes_on_in_the_new_segment(tmp_path: Path, fsync: str) -> None:
    files = Stopped("sync_dir", lambda: StorageError("the directory", "flush", 5, "planted"))
    store = opened(tmp_path / "s", files, fsync)
    before = [store.stream("x").add({"n": number}) for number in range(6)]
    files.armed = True
    with pytest.raises(StorageError, match="planted"):
        store.stream("x").seal()
    with pytest.raises(PoisonedError):
        store.stream("x").add({"n": "refused"})
    with opened(tmp_path / "s", None, fsync) as other:  # the first one has it open yet
        later = [other.stream("x").add({"n": number}) for number in range(6, 9)]
    store.close()
    with opened(tmp_path / "s", None, fsync) as again:
        assert [entry.id for entry in again.stream("x").range()] == [*before, *later]
        assert again.verify().problems == []
