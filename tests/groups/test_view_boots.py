"""Which boot a view is written in: where the system does not say, or the file that says so is gone, all goes on."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from diskstream.engine import page, view_map
from diskstream.engine.locks import Locks
from diskstream.engine.moved import FORKS
from diskstream.engine.page import boot_id
from tests.engine.children import child
from tests.groups.test_view import Shown, opened, shown, work
from tests.groups.workers import serve, serve_without_a_boot

_EACH = {"known": serve, "not known": serve_without_a_boot}


@pytest.fixture(params=["known", "not known"])
def boot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether this process is told which boot it is."""
    if request.param == "not known":
        monkeypatch.setattr(page, "_BOOT_ID", Path("/nowhere"))
        assert boot_id() != boot_id()
    return str(request.param)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("other", _EACH)
def test_processes_share_a_view_though_not_all_are_told_which_boot_it_is(tmp_path: Path, boot: str, other: str) -> None:
    with opened(tmp_path / "s") as (_, group):
        work(group)
        with child(_EACH[other], tmp_path / "s", "other", view_map.FIRST_MAP_BYTES) as second:
            assert second.hear() == "ready"
            for _ in range(3):
                before = work(group)
                assert second.ask("list").split() == [str(entry_id) for entry_id, *_ in before]
                assert second.ask(f"ack {before[0][0]}") == "1"
                assert shown(group) == before[1:]
                assert second.ask("add 1 2 3 4 5") == "5"
                assert len(second.ask("read 5").split()) == 5
        after = shown(group)
    assert (tmp_path / "s" / "view" / "epoch").read_text() == "clean"
    with opened(tmp_path / "s") as (_, group):
        assert shown(group) == after


@pytest.mark.timeout(60)
def test_who_comes_when_the_epoch_was_removed_in_use_does_not_wait_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        (tmp_path / "s" / "view" / "epoch").unlink()
        with child(serve, tmp_path / "s", "other", view_map.FIRST_MAP_BYTES) as second:
            assert second.hear() == "ready"
            assert second.ask("list").split() == [str(entry_id) for entry_id, *_ in before]


@pytest.mark.timeout(60)
def test_an_earlier_boots_view_is_not_believed_as_somebody_comes_to_it_too(tmp_path: Path) -> None:
    """Who waits to be let in, as whoever was alone with it died, has the `flock` and knows no more."""
    view = tmp_path / "s" / "view"
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
    (view / "epoch").write_text("0" * 32)
    found = list[Shown]()

    def look() -> None:
        with opened(tmp_path / "s") as (_, group):
            found.append(shown(group))

    comer = threading.Thread(target=look)
    with (view / "data.mdb").open("rb") as kept, (view / "users").open("r+b") as users:
        was = os.fstat(kept.fileno()).st_ino
        fcntl.flock(users, fcntl.LOCK_SH)
        comer.start()
        comer.join(0.5)
        assert comer.is_alive()
        assert (view / "data.mdb").stat().st_ino == was
        fcntl.flock(users, fcntl.LOCK_UN)
        comer.join()
        assert found == [before]
        assert (view / "data.mdb").stat().st_ino != was


@pytest.mark.timeout(60)
def test_who_comes_as_the_last_one_leaves_does_not_write_in_a_view_that_is_called_clean(tmp_path: Path) -> None:
    """Who leaves gives up the `flock` first: with his record lock still there, he has said `clean` already."""
    view = tmp_path / "s" / "view"
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
    assert (view / "epoch").read_text() == "clean"
    epochs = list[str]()

    def look() -> None:
        with opened(tmp_path / "s") as (_, group):
            assert shown(group) == before
            epochs.append((view / "epoch").read_text())

    comer = threading.Thread(target=look)
    with (view / "users").open("r+b") as file:
        leaving = Locks(os.dup(file.fileno()), FORKS.count)
        leaving.change(fcntl.LOCK_SH)
        assert leaving.record(fcntl.F_RDLCK)
        comer.start()
        comer.join(0.5)
        assert comer.is_alive()
        leaving.close()
    comer.join()
    assert epochs == [boot_id().hex()]
