"""What `--key` means: a key of that very name, or a pattern."""

import json

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


def test_a_pattern_that_no_stream_has_is_a_finding_as_a_key_that_is_not_there(world: World) -> None:
    """Mistyped, a job of every night ended with 0, and said nothing where another pattern had streams."""
    world.fill("orders:1", 2)
    world.client.set("order:s", "a string")
    said = world.refused("--key", "order:*", key="orders:*")
    assert "order:*: given up: no stream has a name like this" in said
    plans = world.archive("--key", "order:*", "--dry-run", key="orders:*", code=1)
    assert plans["order:*"]["error"] == "no stream has a name like this"
    assert len(world.copy("orders:1")) == 2
    said = world.refused(key="x*")
    assert "x*: given up: no stream has a name like this; patterns are those of KEYS" in said
    assert "1 of 1 stream needs a look" in said
    assert list(world.archive(key="[o]rders:1")) == ["orders:1"]


@pytest.mark.parametrize("first", ["k*[1]", "*"])
def test_a_pattern_without_a_match_hides_no_key_of_its_very_name(world: World, first: str) -> None:
    """The key was taken for one that had been given up, and was archived by no run."""
    world.fill("k*[1]", 3)
    world.fill("other", 2)
    second = "*" if first == "k*[1]" else "k*[1]"
    words = ("archive", "--from", world.url, "--key", first, "--key", second, "--to", str(world.directory), "--json")
    for more in (("--dry-run",), ()):
        reports = [json.loads(line) for line in world.run(*words, *more, code=1).stdout.splitlines()]
        assert sorted((each["stream"], each["error"] is None) for each in reports) == [
            ("k*[1]", False),
            ("k*[1]", True),
            ("other", True),
        ]
    assert len(world.copy("k*[1]")) == 3


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


@pytest.mark.parametrize("name", ["diskstream:restoring:s", "diskstream:archiver:s"])
def test_a_name_of_ours_that_is_named_exactly_is_told(world: World, name: str) -> None:
    """It was passed over without a word, with exit status 0."""
    world.fill(name, 2)
    world.fill("s", 2)
    for words in ((), ("--dry-run",)):
        reports = world.archive("--key", "s", *words, key=name, code=1)
        assert "not archived" in reports[name]["error"]
        assert reports["s"]["error"] is None
    assert list(world.archive(key="*")) == ["s"]
