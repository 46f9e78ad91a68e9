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
