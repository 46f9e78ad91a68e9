"""`restore --replace` says what goes before it asks, and whether it is newer than what takes its place."""

import json

from tests.archiving.test_restore import archived
from tests.archiving.world import World


def asked(world: World, *words: str, code: int = 1, given: str | None = "n\n") -> str:
    """What is said by a restore with `--replace` of all streams."""
    given_words = ("restore", "--to", world.url, "--dir", str(world.directory), "--replace", *words)
    return world.run(*given_words, code=code, given=given).output


def test_entries_that_the_store_has_not_are_told_before_they_go(world: World) -> None:
    """An older copy took the place of a key that others had added to since, and the question named the key alone."""
    archived(world)
    assert "Replace s (48 entries, the last ID 50-1) in redis" in asked(world)
    world.client.xadd("s", {"n": 1}, "51-0")
    goes = "49 entries, the last ID 51-0, newer than the store's, 50-1"
    assert f"Replace s ({goes}) in redis" in asked(world)
    assert world.client.xlen("s") == 49

    assert f"in the place of the stream that is there: {goes}\n" in asked(world, "--dry-run", code=0)
    (plan,) = map(json.loads, asked(world, "--dry-run", "--json", code=0).splitlines())
    assert (plan["would"], plan["key_entries"], plan["key_last_id"]) == ("replace", 49, "51-0")

    asked(world, code=0, given="y\n")
    assert world.client.xlen("s") == 48


def test_a_key_of_another_type_is_told_by_it(world: World) -> None:
    archived(world)
    world.client.delete("s")
    world.client.lpush("s", "one")
    assert "Replace s (a list) in redis" in asked(world)
    (plan,) = map(json.loads, asked(world, "--dry-run", "--json", code=0).splitlines())
    assert (plan["key_is"], plan["key_entries"], plan["key_last_id"]) == ("list", None, None)
