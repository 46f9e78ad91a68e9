"""A scan of a sealed segment unpacks several nodes in one call; a damaged one takes none of the others along."""

from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, EntryID
from tests.engine.sample import damage_node, sealed

ENTRIES, NODE = 400, 4


@pytest.mark.parametrize("damaged", [0, 1, 2, 17, 50, 99])
def test_what_came_before_a_damaged_node_is_read_first(damaged: int, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", node_max_entries=NODE, cache_bytes=0) as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(ENTRIES)])
        stream.seal()
    before = damage_node(tmp_path / "s", damaged)
    seen: list[int] = []
    with diskstream.open(tmp_path / "s", read_only=True) as store, pytest.raises(CorruptionError):
        seen.extend(int(entry[b"n"]) for entry in store.stream("x").range())
    assert seen == list(range(before))
    assert before == NODE * damaged


@pytest.mark.parametrize(("value_bytes", "at_once"), [(1_000, 16), (300_000, 14), (1_500_000, 3), (5_000_000, 1)])
def test_what_unpacks_to_much_is_read_few_nodes_at_once(value_bytes: int, at_once: int, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", node_max_entries=1, segment_bytes=256 << 20, cache_bytes=0) as store:
        stream = store.stream("x")
        for _ in range(20):
            stream.add({"n": bytes(value_bytes)})  # zeros, of which next to nothing is on the disk
        stream.seal()
        segment, view = sealed(store)
        found = segment.read_blocks(0, 16, EntryID(0, 0), EntryID(2**63, 0), view)
        assert len(found) == at_once
        assert len(list(stream.range())) == 20
