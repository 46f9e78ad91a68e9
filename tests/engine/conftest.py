"""Directories for the tests of this folder: thousands of flushes shall not wait for a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.sample import fast_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of the test's own, in memory where there is some; what a disk does, `stand_ins.py` does."""
    with fast_directory() as directory:
        yield directory
