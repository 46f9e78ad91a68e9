"""A scan of a sealed segment unpacks several nodes in one call; a damaged one takes none of the others along."""

from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError
from diskstream._native import SealedSegment
from tests.engine.sample import log_of

ENTRIES, NODE = 400, 4


@pytest.mark.parametrize("damaged", [0, 1, 2, 17, 50, 99])
def test_what_came_before_a_damaged_node_is_read_first(damaged: int, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", node_max_entries=NODE, cache_bytes=0) as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(ENTRIES)])
        stream.seal()
        log = log_of(store, b"x")
        (view,) = log.segments.views()
        segment = log.segments.get(view)
        assert isinstance(segment, SealedSegment)
        offset, length, before, *_ = segment.node_row(damaged)
    (path,) = (tmp_path / "s" / "streams" / "x").glob("*.seg")
    content = bytearray(path.read_bytes())
    content[offset + length // 2] ^= 0x10
    path.write_bytes(content)
    seen: list[int] = []
    with diskstream.open(tmp_path / "s", read_only=True) as store, pytest.raises(CorruptionError):
        seen.extend(int(entry[b"n"]) for entry in store.stream("x").range())
    assert seen == list(range(before))
    assert before == NODE * damaged
