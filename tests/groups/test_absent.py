"""What is acknowledged twice, or was never pending, asks the view once; and is pending as soon as it is again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Group
from diskstream.engine.state import View
from tests.groups.workers import SMALL

LAST = 300


@pytest.fixture
def group(tmp_path: Path) -> Any:
    """Entries 1-0 to 300-0, of which the first is not pending any more, and the view knows of the others."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        stream = store.stream("x")
        for number in range(1, LAST + 1):
            stream.add({"n": number}, id=f"{number}-0")
        made = stream.group("g", start="0")
        made.consumer("one").read(count=LAST)
        made.ack("1-0")
        stream.seal()  # what is pending is in the view then, and no overlay says anything
        yield made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each look into the view."""
    real, seen = View.read, list[str]()

    def read(view: View, look: Callable[..., Any]) -> Any:
        seen.append("look")
        return real(view, look)

    monkeypatch.setattr(View, "read", read)
    return seen


def test_the_view_is_asked_once(group: Group, looks: list[str]) -> None:
    assert group.ack("1-0", "5-5") == 0
    assert looks
    looks.clear()
    assert [group.ack("1-0"), group.ack("5-5", "1-0")] == [0, 0]
    assert looks == []


def test_what_is_taken_by_force_is_pending_then(group: Group, looks: list[str]) -> None:
    assert group.ack("1-0") == 0
    assert group.consumer("two").claim_ids("1-0", force=True) == [EntryID("1-0")]
    assert group.ack("1-0") == 1
    looks.clear()
    assert group.ack("1-0") == 0
    assert looks == []


def test_it_is_asked_again_once_it_has_changed(group: Group, looks: list[str]) -> None:
    assert group.ack("1-0") == 0
    group.consumer("two").claim_ids("1-0", force=True)
    group.stream.add({"n": 0}, id="301-0")
    group.stream.seal()  # 1-0 is in the view now
    assert group.ack("1-0") == 1


def test_another_process_may_have_made_it_pending(group: Group) -> None:
    assert group.ack("1-0") == 0
    with diskstream.open(group.stream._store.path, **SMALL) as beside:
        other = beside.stream("x").group("g", create=False)
        other.consumer("two").claim_ids("1-0", force=True)
        beside.stream("x").add({"n": 0}, id="301-0")
        beside.stream("x").seal()
    assert [row.id for row in group.pending_range(count=1)] == [EntryID("1-0")]
    assert group.ack("1-0") == 1


def test_of_very_many_none_is_taken_for_another(group: Group) -> None:
    for number in range(2, LAST + 1):
        assert group.ack(*(f"{number}-{seq}" for seq in range(1, 40))) == 0
    assert group.ack(*(f"{number}-0" for number in range(2, LAST + 1))) == LAST - 1
    assert group.pending().total == 0


def test_a_group_that_another_process_destroyed_is_made_again(tmp_path: Path) -> None:
    """What this process knew of it was taken for granted."""
    with diskstream.open(tmp_path / "s") as store, diskstream.open(tmp_path / "s") as other:
        store.stream("x").group("g", start="0")
        assert other.stream("x").group("g").destroy()
        store.stream("x").group("g", start="0").consumer("c").read()
        assert [each.name for each in other.stream("x").groups()] == [b"g"]
