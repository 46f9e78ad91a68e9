"""What a trim of the source may take: what was copied and read back, and no group still has to be given."""

import json
import signal

import pytest

import diskstream
from diskstream import EntryID
from diskstream.archiving import Server, trimming
from diskstream.archiving.leasing import RESTORING_PREFIX, Lease
from diskstream.archiving.trimming import trim_source
from diskstream.errors import ChangedError
from diskstream.ids import MIN_ID
from diskstream.store_files import store_uuid
from tests.archiving.test_archive import until
from tests.archiving.world import World


def made_anew(world: World) -> None:
    """Another stream under the key, with IDs as the one before, and two more."""
    with world.client.pipeline(transaction=True) as pipeline:
        pipeline.delete("s")
        for number in range(1, 13):
            pipeline.xadd("s", {"new": number}, f"{number}-1")
        pipeline.execute()


def test_a_stream_that_took_the_place_of_the_trimmed_one_is_not_trimmed(world: World) -> None:
    """With as high an ID and as many entries as before, it was trimmed of what nobody had read."""
    world.fill("s", 10)
    process = world.process("--key", "s", "--trim", "--follow")
    try:
        until(lambda: world.client.xlen("s") == 0)
        made_anew(world)
        until(lambda: len(world.copy("s")) == 12)
        world.client.xadd("s", {"new": 13}, "13-1")  # nor is it trimmed in a later round
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert set(world.source("s")) == {f"{number}-1" for number in range(1, 14)}
    (report,) = map(json.loads, out.splitlines())
    assert "is not the one that was copied" in (report["error"] or ""), (report, err)
    assert report["trimmed"] == 10


def test_nor_one_that_came_between_the_copy_and_the_trim(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    made_anew(world)
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        lease, copy = Lease(server, store_uuid(world.directory)), store.stream("s")
        with pytest.raises(ChangedError, match="is not the one that was copied: its entry 1-1 is another one"):
            trim_source(
                *(server, lease, copy),
                behind=MIN_ID,
                upto=EntryID("10-1"),
                least_added=10,
                unacknowledged=False,
            )
    assert world.client.xlen("s") == 12


def test_what_a_rewound_group_is_to_be_given_again_stays(world: World) -> None:
    """With something pending, only that was looked at, and not how far the group had been given."""
    made = world.fill("s", 10)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "c", {"s": ">"})
    world.client.xack("s", "g", *[f"{number}-1" for number in range(1, 6)])
    world.client.xgroup_setid("s", "g", "0")
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 0
    assert world.source("s") == made
    world.client.xgroup_setid("s", "g", "3-1")
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 3


def test_entries_that_others_remove_meanwhile_are_no_reason_to_give_up(world: World) -> None:
    world.fill("s", 30)
    world.archive()
    world.client.xdel("s", "1-1", "30-1", "17-1")
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 27
    assert world.client.xlen("s") == 0


def test_an_older_server_trims_as_much_by_deleting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_MINID_SINCE", (99,))
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 8)
    world.fill("s", 30)
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 30
    assert world.client.xlen("s") == 0


def test_what_a_killed_restore_has_left_is_no_stream_to_archive(world: World) -> None:
    """It was copied, and trimmed: the next restore of that key would have begun with nothing."""
    building = RESTORING_PREFIX.decode() + "s"
    world.fill(building, 5)
    world.fill("s", 5)
    assert set(world.archive("--trim", "--force")) == {"s"}
    assert world.client.xlen(building) == 5
