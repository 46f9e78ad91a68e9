"""The control page, which several processes may make at once."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from diskstream.engine.files import Files
from diskstream.engine.page import Page


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
