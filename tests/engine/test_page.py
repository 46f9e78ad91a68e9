"""The control page, which several processes may make at once."""

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.engine.files import Files
from diskstream.engine.locks import Locks
from diskstream.engine.page import Page
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
