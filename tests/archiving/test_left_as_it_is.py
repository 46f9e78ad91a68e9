"""A key that a restore leaves as it is, since it holds the entries of the stream: what else it has not is told."""

from tests.archiving.test_restore import archived, restore
from tests.archiving.world import World


def test_groups_that_it_has_not_are_told(world: World) -> None:
    """It was said to have been read back and found the same, with the groups that somebody wanted to have again."""
    archived(world)
    world.client.delete("s")
    assert restore(world)["groups"] == 2
    report = restore(world)
    assert (report["already_there"], report["groups"], len(report["notes"])) == (True, 2, 1)
    world.client.xgroup_destroy("s", "idle")
    report = restore(world)
    assert (report["already_there"], report["groups"]) == (True, 1)
    assert report["notes"][1].startswith("it has not the group 'idle', which the stream has")
    assert len(restore(world, "--start", "1-0")["notes"]) == 1  # a range has none


def test_nothing_is_said_to_have_been_put_back(world: World) -> None:
    """In words it went on being read back and found the same, with `0 pending entries`, however many it has."""
    archived(world)
    done = world.run("restore", "--to", world.url, "--dir", str(world.directory))
    assert done.stdout == "s: left as it is\n"
    assert "s: the key holds these entries already: it was left as it is" in done.stderr


def test_with_replace_they_come_again(world: World) -> None:
    archived(world)
    world.client.xgroup_destroy("s", "idle")
    assert restore(world, "--replace", "--force")["groups"] == 2
    assert [group["name"] for group in world.client.xinfo_groups("s")] == [b"g", b"idle"]
