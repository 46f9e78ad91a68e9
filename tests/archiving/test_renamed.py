"""A source that was made anew, and an old copy that was put aside for it."""

import diskstream
from tests.archiving.world import World


def test_who_renames_the_old_copy_as_the_hint_says_may_archive_the_new_stream(world: World) -> None:
    """The hint named the renaming alone, after which the same refusal came again."""
    world.client.xadd("h", {"a": 1}, "9-0")
    world.archive()
    world.client.delete("h")
    world.client.xadd("h", {"b": 1}, "5-0")
    hint = world.refused()
    assert "rename the old copy" in hint or "its last ID is 5-0" in hint
    (checkpoint,) = (world.directory / "archives").glob("*.json")
    world.run("rename", "h", "h.old", "--dir", str(world.directory))
    checkpoint.unlink()
    world.archive()
    with diskstream.open(world.directory, read_only=True) as store:
        assert {name: [str(entry.id) for entry in store.stream(name)] for name in ("h", "h.old")} == {
            "h": ["5-0"],
            "h.old": ["9-0"],
        }
