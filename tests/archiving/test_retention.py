"""An archive into a stream that has a rule of retention."""

import diskstream
from tests.archiving.test_refused import finding
from tests.archiving.world import World


def test_a_copy_that_goes_by_a_rule_of_retention_is_refused_by_name(world: World) -> None:
    """What the rule had removed was taken for a damaged copy, or a disk not to be trusted."""
    world.fill("s", 300)
    world.archive()
    with diskstream.open(world.directory, retention_interval_ms=0) as store:
        store.stream("s").set_retention(max_entries=10)
        while store.stream("s").apply_retention().more:
            pass
    for words in ((), ("--trim",)):
        said = finding(world, *words)
        assert "rule of retention (max_entries=10" in said
        assert "diskstream retention clear" in said
    assert len(world.source("s")) == 300
    with diskstream.open(world.directory) as store:
        store.stream("s").set_retention(max_entries=10, to=f"file://{world.directory}-cold")
    world.fill("s", 5, first=301)
    assert world.archive()["s"]["entries"] == 5
