"""The control page, which several processes may make at once."""

import errno
import fcntl
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.engine import page as pages
from diskstream.engine.files import Files
from diskstream.engine.locks import Locks
from diskstream.engine.moved import FORKS
from diskstream.engine.page import Page, boot_id
from tests.engine.children import LIMIT_S
from tests.engine.sample import as_if_killed, log_of


def test_who_comes_as_late_as_a_page_is_made_leaves_it_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros were written over the page that another had just made and used: neither of them ever went on."""
    path = tmp_path / "ctl"
    made: list[Page] = []
    really = os.fstat

    def fstat(fd: int) -> Any:
        seen = really(fd)
        if sys._getframe(1).f_code.co_name == "open_ctl":  # which looks at the size
            monkeypatch.setattr(os, "fstat", really)
            other = Page.open(Files(), path)
            made.append(other)
            assert other.alone
            assert other.settle(other.renew())
        return seen

    monkeypatch.setattr(os, "fstat", fstat)
    fd, ctl = Files().open_ctl(path)
    (other,) = made
    assert other.ctl.ready
    assert ctl.generation == other.ctl.generation
    os.close(fd)
    other.close()


EARLIER_BOOT = b"before the outage"[:16]
NAMESPACE_AT = 32  # docs/format/ctl.md


def let_who_is_alone_die(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes next to a page waits for somebody who is alone with it, and is killed before he makes it anew."""
    really = Locks.is_alone

    def is_alone(locks: Locks) -> bool:
        if not os.path.samestat(os.fstat(locks.fd), path.stat()):
            return really(locks)
        monkeypatch.setattr(Locks, "is_alone", really)
        locks.change(fcntl.LOCK_SH)
        return False

    monkeypatch.setattr(Locks, "is_alone", is_alone)


def test_a_page_of_an_earlier_boot_is_not_joined_where_who_was_alone_with_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says is older than the log, perhaps: what had been acknowledged since was written over."""
    page = tmp_path / "s" / "streams" / "x" / "ctl"
    store = diskstream.open(tmp_path / "s", fsync="os")
    stream = store.stream("x")
    stream.add({"n": "1"})
    written_back = page.read_bytes()  # by the kernel, in its own time
    stream.add({"n": "2"})
    log_of(store).flush()
    as_if_killed(store)
    page.write_bytes(written_back[:16] + EARLIER_BOOT + written_back[32:])
    let_who_is_alone_die(page, monkeypatch)
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "3"})
        assert [entry["n"] for entry in store.stream("x").range()] == [b"1", b"2", b"3"]


def test_a_page_that_others_use_is_joined_though_nobody_knows_its_boot(tmp_path: Path) -> None:
    first = Page.open(Files(), tmp_path / "ctl")
    assert first.settle(first.renew())
    first.ctl.confirm(EARLIER_BOOT)  # where /proc cannot be read it is another one each time
    second = Page.open(Files(), tmp_path / "ctl")
    assert not second.alone
    second.close()
    first.close()


def test_a_page_that_nobody_has_is_not_joined_where_who_was_alone_with_it_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another container was by who had waited for a repair: he was told that it had the store open still."""
    page = tmp_path / "s" / "ctl"
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
    left = page.read_bytes()
    page.write_bytes(left[:NAMESPACE_AT] + b"\1\0\0\0" + left[NAMESPACE_AT + 4 :])
    let_who_is_alone_die(page, monkeypatch)
    with diskstream.open(tmp_path / "s") as store:
        assert len(store.stream("x")) == 1


def test_of_two_who_wait_for_one_that_dies_neither_takes_the_other_for_a_user_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that saw the other's lock joined a page that nobody had made since the outage."""
    path = tmp_path / "ctl"
    first = Page.open(Files(), path)
    assert first.settle(first.renew())
    first.ctl.confirm(EARLIER_BOOT)
    first.close()
    opened: list[bool] = []
    looked = threading.Event()

    def open_it() -> None:
        page = Page.open(Files(), path)
        opened.append(page.alone)
        if page.alone:
            assert page.settle(page.renew())
        assert bytes(page.ctl.boot) == boot_id()
        page.close()

    def look(locks: Locks) -> bool:
        monkeypatch.setattr(Locks, "has_others_recorded", really_looked)
        found = really_looked(locks)
        looked.set()
        return found

    def is_at(fd: int, path: Path) -> bool:
        monkeypatch.setattr(Page, "_is_at", staticmethod(really_at))
        monkeypatch.setattr(Locks, "has_others_recorded", look)
        let_who_is_alone_die(path, monkeypatch)
        second.start()
        assert looked.wait(LIMIT_S)
        return really_at(fd, path)

    really_looked, really_at = Locks.has_others_recorded, Page._is_at
    second = threading.Thread(target=open_it)
    let_who_is_alone_die(path, monkeypatch)
    monkeypatch.setattr(Page, "_is_at", staticmethod(is_at))
    open_it()
    second.join(LIMIT_S)
    assert sorted(opened) in ([False, True], [True, True])


def left_by_an_interrupted_closing(path: Path) -> Page:
    """A page whose record was given up already, and whose `flock` stays for as long as somebody has the mapping."""
    page = Page.open(Files(), path)
    assert page.settle(page.renew())
    page._locks.record(fcntl.F_UNLCK)
    return page


def test_a_page_of_this_boot_whose_closing_was_interrupted_keeps_nobody_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_PATIENCE_S", 0.01)
    left = left_by_an_interrupted_closing(tmp_path / "ctl")
    second = Page.open(Files(), tmp_path / "ctl")
    assert not second.alone
    assert second.ctl.generation == left.ctl.generation
    second.close()
    left.close()


def test_a_page_that_was_given_up_is_the_last_of_no_other_file(tmp_path: Path) -> None:
    """The lock fell on whatever had its number by then: who opened that page next waited for ever."""
    first = Page.open(Files(), tmp_path / "ctl")
    number = first._fd
    first.close()
    other = Page.open(Files(), tmp_path / "other")
    assert other.settle(other.renew())
    assert other._fd == number
    assert not first.becomes_last()
    assert not is_held_alone(tmp_path / "other")
    other.close()


def is_held_alone(path: Path) -> bool:
    """Whether somebody has the record of a page for himself alone."""
    fd = os.open(path, os.O_RDWR)
    try:
        return not Locks(fd, FORKS.count).record(fcntl.F_RDLCK)
    finally:
        os.close(fd)


def test_a_page_of_nobody_knows_which_boot_that_is_only_locked_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(pages, "_LONGEST_PATIENCE_S", 0.05)
    left = left_by_an_interrupted_closing(tmp_path / "ctl")
    left.ctl.confirm(EARLIER_BOOT)
    with pytest.raises(diskstream.StorageError, match=r"has it locked.*: end that process") as raised:
        Page.open(Files(), tmp_path / "ctl")
    assert raised.value.errno == errno.EBUSY
    left.close()
    last = Page.open(Files(), tmp_path / "ctl")
    assert last.alone
    last.close()
