"""A view that cannot be read or written for now: what needs it says so, with a way out, and nothing is lost."""

from pathlib import Path

import pytest

from diskstream.errors import LimitError, ReadOnlyError
from tests.engine.children import child
from tests.engine.mounts import unwritable
from tests.groups.test_view import opened, shown, work
from tests.groups.workers import hold_all_readers


def test_readers_that_live_keep_their_places(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        with child(hold_all_readers, tmp_path / "s") as others:
            assert int(others.hear().removeprefix("held ")) > 1000
            with pytest.raises(LimitError, match="Too many processes and threads look at what is pending") as caught:
                shown(group)
            assert "too large" not in str(caught.value)
            assert group.stream.add({"n": "1"}) is not None
            others.kill()
        assert shown(group) == before


def test_a_view_on_a_mount_for_reading_only_is_told_with_a_way_out(tmp_path: Path) -> None:
    """The log takes entries and gives them out; what needs the view says what is the matter."""
    view = tmp_path / "s" / "view"
    with opened(tmp_path / "s") as (_, group):
        before = work(group)
        group.stream.add({"n": "1"})
    with unwritable(view, view), opened(tmp_path / "s") as (_, group):
        assert group.stream.add({"n": "2"}) is not None
        assert [entry["n"] for entry in group.consumer("dora").read(count=1)] == [b"1"]
        for call in (group.pending_range, lambda: group.ack(before[0][0])):
            with pytest.raises(ReadOnlyError, match=r"mounted for reading only.*remove the directory view"):
                call()
    with opened(tmp_path / "s") as (_, group):
        assert shown(group)[: len(before)] == before
