"""A stream that is added to while it is restored: the key has what it says that it has, or is not made."""

from typing import Any

import pytest

import diskstream
from diskstream.archiving.restoring import _Restore
from tests.archiving.test_restore import archived, restore
from tests.archiving.world import World


def test_a_stream_that_is_added_to_at_the_end_is_not_put_in_place_without_its_newest_entry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the last ID, the counters and the groups of the moment after, and `read back and found the same`."""
    archived(world)
    world.client.delete("s")
    real = _Restore._state
    with diskstream.open(world.directory) as store:

        def state(*given: Any) -> Any:
            store.stream("s").add({"n": "more"})
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(_Restore, "_state", state)
            said = restore(world, code=1)["said"]
        assert "it was added to while it was restored" in said
        assert not world.client.exists("s")
        restore(world)
        assert world.client.xlen("s") == len(store.stream("s"))
