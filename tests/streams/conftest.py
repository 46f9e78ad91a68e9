"""A store whose segments and nodes are so small that a few hundred entries have all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from tests.streams.layers import SMALL


@pytest.fixture
def small(tmp_path: Path) -> Iterator[diskstream.Store]:
    """Segments of 8 KiB, nodes of seven entries, sealed only when told."""
    with diskstream.open(tmp_path / "small", **SMALL) as opened:
        yield opened
