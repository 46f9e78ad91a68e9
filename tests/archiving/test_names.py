"""What `--key` means: a key of that very name, or a pattern."""

import pytest

from tests.archiving.world import World


@pytest.mark.parametrize("name", ["k[1]", "back\\slash", "k1"])
def test_a_key_of_the_very_name_is_the_one_that_is_meant(world: World, name: str) -> None:
    for key in ("k[1]", "k1", "back\\slash", "k2"):
        world.fill(key, 2)
    assert list(world.archive("--trim", key=name)) == [name]
    assert world.source(name) == {}
    assert all(len(world.source(key)) == 2 for key in ("k[1]", "k1", "back\\slash", "k2") if key != name)


def test_without_a_key_of_that_name_brackets_are_a_pattern(world: World) -> None:
    for key in ("k1", "k2", "k3"):
        world.fill(key, 2)
    assert sorted(world.archive(key="k[12]")) == ["k1", "k2"]


def test_a_refusal_about_a_key_called_nogroup_takes_no_group_away(world: World) -> None:
    """Any error whose text had that word in a name counted as: the group is gone."""
    for key in ("NOGROUP", "k"):
        world.fill(key, 2)
        world.client.xgroup_create(key, "g", 0)
    world.client.execute_command("ACL", "SETUSER", "default", "-xpending")
    try:
        world.archive(key="NOGROUP", code=1)
        world.archive(key="k", code=1)
    finally:
        world.client.execute_command("ACL", "SETUSER", "default", "+@all")
