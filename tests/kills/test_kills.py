"""Killed at system calls, a store keeps its promises; and a store that does not is caught."""

from pathlib import Path

import pytest

from tests.engine.children import child
from tests.kills.planted import MISTAKES, hunt
from tests.kills.strace import calls, last_call, why_not

LOG = """\
4711  openat(AT_FDCWD, "x", O_RDONLY) = 3
4711  read(3, "", 10)                   = 0
4711  read(3, "", 10)                   = -1 EIO (Input/output error) (INJECTED)
4711  pwrite64(3, "a", 1, 0)            = ?
4711  +++ killed by SIGKILL +++
"""


def test_a_log_is_understood(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    found = calls(log)
    assert [(call.name, call.nth) for call in found] == [("openat", 1), ("read", 1), ("read", 2), ("pwrite64", 1)]
    assert [call.name for call in found if "(INJECTED)" in call.text] == ["read"]
    assert last_call(log) == "pwrite64"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(mistake: str) -> None:
    if why := why_not():
        pytest.skip(why)
    with child(hunt, mistake) as hunter:
        assert hunter.hear(100).startswith("caught")
