"""The file of the log, under what an operator's tools do to it."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.server.log_file import LogFile


@pytest.fixture
def log(tmp_path: Path) -> Iterator[logging.Logger]:
    logger = logging.getLogger("tests.rotated")
    logger.propagate = False
    handler = LogFile(str(tmp_path / "log"))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def test_a_log_that_was_moved_away_goes_on_under_its_name(log: logging.Logger, tmp_path: Path) -> None:
    """What rotates a Redis's logs gives no signal: the lines went on into the old file, and were lost with it."""
    log.warning("before")
    (tmp_path / "log").rename(tmp_path / "log.1")
    log.warning("after")
    log.warning("and on")
    assert (tmp_path / "log.1").read_text() == "before\n"
    assert (tmp_path / "log").read_text() == "after\nand on\n"


def test_a_log_that_somebody_else_has_made_anew_is_the_one_that_counts(log: logging.Logger, tmp_path: Path) -> None:
    log.warning("before")
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").touch()
    log.warning("after")
    assert (tmp_path / "log").read_text() == "after\n"


def test_a_log_that_was_removed_is_made_anew_for_its_owner_and_his_group(log: logging.Logger, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        (tmp_path / "log").unlink()
        log.warning("after")
    finally:
        os.umask(before)
    assert (tmp_path / "log").read_text() == "after\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o640


def test_where_none_can_be_made_anew_a_line_goes_to_standard_error_and_the_next_one_tries_again(
    log: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").mkdir()
    log.warning("for somebody")
    assert capsys.readouterr().err == "for somebody\n"
    (tmp_path / "log").rmdir()
    log.warning("after")
    assert (tmp_path / "log").read_text() == "after\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
def test_a_line_that_a_full_disk_does_not_take_goes_to_standard_error() -> None:
    """There stood a stack of Python's logging instead, some twenty lines for each."""
    code = (
        "import logging; from diskstream.server.log_file import LogFile; logger = logging.Logger('full'); "
        "logger.addHandler(LogFile('/dev/full')); logger.warning('writes fail')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "writes fail\n"
