"""Sources that are not what they were: made anew, replaced, moved, trimmed by others; and what a copy says of that."""

import json
from typing import Any

import pytest
import redis

import diskstream
from diskstream.stream import Stream
from tests.archiving.test_copy_gone import followed
from tests.archiving.test_refused import finding
from tests.archiving.world import World


def test_a_gap_is_found_and_counted_once(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    world.fill("s", 10, first=11)
    world.client.xtrim("s", minid="16-1", approximate=False)
    said = finding(world)
    assert "a gap: 5 entries between 10-1 and 20-1 were trimmed at the source by others" in said
    assert world.archive()["s"]["findings"] == []
    world.fill("s", 5, first=21)
    world.client.xdel("s", "22-1")
    assert "a gap: 1 entry between 20-1 and 25-1 was deleted or trimmed" in finding(world)
    assert sorted(world.copy("s")) == sorted(f"{n}-1" for n in [*range(1, 11), *range(16, 22), 23, 24, 25])
    facts = json.loads(next((world.directory / "archives").glob("*.json")).read_text())
    assert facts["missed_entries"] == 6


def test_entries_deleted_after_they_were_copied_are_no_gap(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    world.client.xdel("s", "3-1", "10-1")
    world.fill("s", 1, first=11)
    assert world.archive()["s"]["entries"] == 1
    assert len(world.copy("s")) == 11


@pytest.mark.parametrize("trim", [(), ("--trim",)])
def test_a_stream_that_was_made_anew_is_not_mixed_with_the_old_one(world: World, trim: tuple[str, ...]) -> None:
    made = world.fill("s", 10)
    world.archive()
    world.client.delete("s")
    world.fill("s", 4)
    assert "is not the one that was copied: its last ID is 4-1 and was 10-1 before" in finding(world, *trim)
    world.client.delete("s")
    world.fill("s", 4, first=20)  # IDs above, as automatic ones are
    said = finding(world, *trim)
    assert "4 entries were ever added and 10 before" in said
    assert "--accept-changed" in said
    assert world.copy("s") == made
    assert len(world.source("s")) == 4
    assert world.archive(*trim, "--accept-changed")["s"]["entries"] == 4
    world.fill("s", 1, first=30)
    assert world.archive(*trim)["s"]["entries"] == 1


def test_a_stream_made_anew_between_copy_and_trim_is_not_trimmed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("s", 10)
    real = Stream.wait_durable

    def replace(self: Stream, *words: Any) -> bool:
        world.client.delete("s")
        world.fill("s", 5)
        return real(self, *words)

    monkeypatch.setattr(Stream, "wait_durable", replace)
    assert "is not the one that was copied" in finding(world, "--trim")
    assert len(world.source("s")) == 5


def test_what_was_put_in_the_place_of_copied_entries_is_not_trimmed(world: World) -> None:
    """Last ID and counts are those of a stream that just went on; what it holds is not."""
    made = world.fill("s", 10)
    world.archive()
    world.client.delete("s")
    world.fill("s", 15, size=9)
    for words in (["--trim"], []):
        assert "is another one" in finding(world, *words)
    world.client.delete("s")
    world.client.xadd("s", {"never": "copied"}, "0-5")
    world.fill("s", 15)
    for words in (["--trim"], []):
        assert "the copy lacks its entry 0-5" in finding(world, *words)
    assert len(world.source("s")) == 16
    assert world.copy("s") == made


def test_a_stream_made_anew_behind_the_copy_is_told_by_what_was_added(world: World) -> None:
    """None of its IDs is in the copy, and it has as many entries as the other one had: only their sum is wrong."""
    world.fill("s", 10)
    world.archive()
    world.client.delete("s")
    world.fill("s", 12, first=20)
    assert "10 more entries came between 10-1 and 31-1 than were added" in finding(world)
    world.fill("s", 3, first=40)
    assert world.archive()["s"]["findings"] == []


def test_a_source_that_forgot_what_was_copied_last_and_went_on_is_found_out_between_two_rounds(world: World) -> None:
    """A replica that was behind, say: its count is as high as it should be, and it begins with what it began with."""
    made = world.fill("s", 30)

    def forget() -> None:
        with world.client.pipeline(transaction=True) as pipeline:
            pipeline.delete("s")
            for number in range(1, 41):
                fields = dict(made.get(f"{number}-1", [])) if number < 21 else {"another": number}
                pipeline.xadd("s", fields, f"{number}-1")
            pipeline.execute()

    report = followed(world, [forget], trim=False)
    assert "its entry 30-1 is another one" in (report.error or ""), report
    assert world.copy("s") == made


def test_an_entry_that_was_deleted_from_the_copy_is_no_other_stream(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    with diskstream.open(world.directory) as store:
        store.stream("s").delete("1-1", "10-1")
    world.fill("s", 3, first=11)
    assert world.archive()["s"]["entries"] == 3


def test_another_database_of_the_same_server_is_another_source(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    with redis.Redis.from_url(world.url.removesuffix("9") + "8") as client:
        try:
            other = World(world.url.removesuffix("9") + "8", client, world.directory)
            other.fill("s", 20)
            assert "was made from database 9 of this server, and this is database 8" in finding(other)
        finally:
            client.flushdb()


def test_a_database_that_is_named_behind_the_address_is_told_from_another(world: World) -> None:
    """Both addresses are shown as one, so streams of two databases became one copy, and the second was trimmed."""
    world.fill("s", 10)
    behind = world.url.removesuffix("/9")
    one = World(f"{behind}?db=9", world.client, world.directory)
    one.archive(key="s")
    with redis.Redis.from_url(f"{behind}?db=8") as client:
        try:
            other = World(f"{behind}?db=8", client, world.directory)
            other.fill("s", 20, first=100)
            assert "was made from database 9 of this server, and this is database 8" in finding(other, "--trim")
            assert client.xlen("s") == 20
        finally:
            client.flushdb()
    one.fill("s", 5, first=11)
    assert one.archive(key="s")["s"]["entries"] == 5


def test_another_server_is_not_taken_for_the_first(world: World, second: redis.Redis) -> None:
    world.fill("s", 10)
    world.archive()
    url = "redis://127.0.0.1:{port}/9".format(**second.connection_pool.connection_kwargs)
    other = World(url, second, world.directory)
    other.fill("s", 20)
    assert "which is another server" in finding(other)
    assert other.archive("--accept-changed", key="s")["s"]["entries"] == 10


def read_back_to(world: World, reached: str, entries: int) -> None:
    """The checkpoint as of a run that was killed before it had read all of its copy back."""
    checkpoint = next((world.directory / "archives").glob("*.json"))
    facts = json.loads(checkpoint.read_text())
    facts |= {"verified_to": reached, "verified_entries": entries}
    facts |= {"drained_to": "0-0", "drained_added": 0, "drained_verified": 0}
    del facts["check"]
    checkpoint.write_text(json.dumps(facts))


def test_a_run_that_was_killed_before_it_read_back_compares_with_the_source(world: World) -> None:
    world.fill("s", 20)
    world.archive()
    read_back_to(world, "5-1", 5)
    world.client.xdel("s", "7-1")
    report = world.archive("--trim")["s"]
    assert "1 entry that an earlier run copied is not at the source any more" in report["notes"]
    assert (report["verified_entries"], report["trimmed"]) == (20, 19)


def test_a_copy_that_differs_from_its_source_is_trimmed_nowhere(world: World) -> None:
    world.fill("s", 20)
    world.archive()
    read_back_to(world, "0-0", 0)
    with diskstream.open(world.directory) as store:
        store.stream("s").delete("7-1")
    assert "the copy lacks its entry 7-1" in finding(world, "--trim")
    world.client.delete("s")
    world.fill("s", 20, size=9)
    assert "is another one" in finding(world, "--trim")
    assert len(world.source("s")) == 20
