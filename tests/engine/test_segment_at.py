"""Which segment an ID lies in is found without looking at all of them."""

from pathlib import Path
from typing import Any

import pytest

from diskstream import EntryID
from diskstream._native import SegmentView, segment_at
from tests.streams.layers import small_store


@pytest.fixture
def views(tmp_path: Path) -> list[SegmentView]:
    """Segments of three entries each: 10-0 to 12-0, 20-0 to 22-0, and so on."""
    with small_store(tmp_path / "s") as store:
        stream = store.stream("s")
        for first in range(10, 80, 10):
            stream.add_many([{"n": n} for n in range(3)], ids=[(first + n, 0) for n in range(3)])
            store.seal()
        return store._logs[b"s"].segments.views()


def test_it_is_the_first_that_ends_at_the_id_or_behind_it(views: list[SegmentView]) -> None:
    assert [(view.first.ms, view.last.ms) for view in views] == [(n, n + 2) for n in range(10, 80, 10)]
    for ms in range(85):
        for seq in (0, 1):
            expected = sum(view.last < EntryID(ms, seq) for view in views)
            assert segment_at(views, EntryID(ms, seq)) == expected
    assert segment_at([], EntryID(1, 1)) == 0


def test_what_is_no_segment_and_what_is_no_id_is_refused(views: list[SegmentView]) -> None:
    wrong: Any = ["segment"]
    with pytest.raises(TypeError):
        segment_at(wrong, EntryID(1, 1))
    with pytest.raises(ValueError, match="Invalid stream ID"):
        segment_at(views, "nonsense")
