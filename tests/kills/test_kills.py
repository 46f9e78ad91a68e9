"""Killed at system calls, a store keeps its promises; and a store that does not is caught."""

from pathlib import Path

import pytest
import redis

from tests.archiving import steps
from tests.engine.children import child
from tests.kills.archives import program
from tests.kills.planted import MISTAKES, hunt
from tests.kills.run import Job, Outcome, run
from tests.kills.strace import calls, last_call, why_not
from tests.kills.workload import Script

LOG = """\
4711  openat(AT_FDCWD, "x", O_RDONLY) = 3
4711  read(3, "", 10)                   = 0
4712  read(4, "", 10)                   = 0
4711  read(3, "", 10)                   = -1 EIO (Input/output error) (INJECTED)
4711  pwrite64(3, "a", 1, 0)            = ?
4711  +++ killed by SIGKILL +++
"""


def test_a_log_is_understood(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    found = calls(log)
    assert [(call.name, call.nth) for call in found] == [
        ("openat", 1),
        ("read", 1),
        ("read", 1),
        ("read", 2),
        ("pwrite64", 1),
    ]
    assert [call.name for call in found if "(INJECTED)" in call.text] == ["read"]
    assert last_call(log) == "pwrite64"


def archiver(places: int) -> Outcome:
    if why := why_not():
        pytest.skip(why)
    if not program():
        pytest.skip("needs the program redis-server, which is not installed")
    return run(Job("archive", Script("everysec", 3), places))


def test_a_killed_archiver_loses_nothing_and_doubles_nothing() -> None:
    outcome = archiver(places=8)
    assert outcome.violations == []
    assert outcome.tried["kills of an archiver at a system call"]


def test_an_archiver_that_trims_before_it_has_read_back_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = steps.archive

    def hasty(url: str, directory: str, fsync: str) -> None:
        with redis.Redis.from_url(url) as client:
            client.xtrim(steps.KEY, maxlen=0, approximate=False)
        real(url, directory, fsync)

    monkeypatch.setattr(steps, "archive", hasty)
    assert "an entry is lost" in archiver(places=8).violations[0]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(mistake: str) -> None:
    if why := why_not():
        pytest.skip(why)
    with child(hunt, mistake) as hunter:
        assert hunter.hear(100).startswith("caught")
