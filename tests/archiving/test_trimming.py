"""What a trim of the source may take: what was copied and read back, and no group still has to be given."""

import json
from typing import Any

import pytest
import redis

import diskstream
from diskstream import EntryID
from diskstream.archiving import Server, outages, trimming
from diskstream.archiving.leasing import RESTORING_PREFIX, Lease
from diskstream.archiving.marks import load
from diskstream.archiving.trimming import trim_source
from diskstream.checkpoints import Checkpoints
from diskstream.errors import ChangedError
from diskstream.ids import MIN_ID
from diskstream.redis_link import telling
from diskstream.store_files import store_uuid
from diskstream.stream import Stream
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
        out, err = process.communicate(timeout=30)  # there is nothing else to follow
    finally:
        process.kill()
        process.wait()
    assert set(world.source("s")) == {f"{number}-1" for number in range(1, 13)}
    assert process.returncode == 1
    (report,) = map(json.loads, out.splitlines())
    assert "is not the one that was copied" in (report["error"] or ""), (report, err)
    assert report["trimmed"] == 10


def test_nor_one_that_came_between_the_copy_and_the_trim(world: World) -> None:
    world.fill("s", 10)
    world.archive()
    made_anew(world)
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        lease, copy = Lease(server, store_uuid(world.directory)), store.stream("s")
        with pytest.raises(ChangedError, match="its entry 1-1 is another one"):
            trim_source(
                *(server, lease, copy),
                behind=MIN_ID,
                upto=EntryID("10-1"),
                least_added=10,
                unacknowledged=False,
            )
    assert world.client.xlen("s") == 12


@pytest.mark.parametrize(
    ("copied", "there"),
    [
        ({b"a": b"b", b"c": b"d"}, {b"a": b"b\0c\0d"}),  # as many words make a difference as where they end
        ({b"a": b"1:b"}, {b"a1:": b"b"}),
        ({b"a": b"b", b"1:c": b""}, {b"a": b"b3:1:c0:"}),
    ],
)
def test_entries_of_the_same_bytes_in_other_words_are_others(
    world: World, copied: dict[bytes, bytes], there: dict[bytes, bytes]
) -> None:
    """Names and values were joined by a 0 before a checksum was taken, whatever was in them."""
    world.client.xadd("s", copied, "1-1")
    world.archive()
    world.client.delete("s")
    world.client.xadd("s", there, "1-1")
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        lease, copy = Lease(server, store_uuid(world.directory)), store.stream("s")
        with pytest.raises(ChangedError, match="its entry 1-1 is another one"):
            trim_source(
                *(server, lease, copy),
                behind=MIN_ID,
                upto=EntryID("1-1"),
                least_added=1,
                unacknowledged=False,
            )
    assert world.client.xlen("s") == 1


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


def trimmed_by_hand(world: World, upto: str, **options: object) -> trimming.Trimmed:
    """What was read back of "s" up to an ID, trimmed."""
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        lease = Lease(server, store_uuid(world.directory))
        return trim_source(
            *(server, lease, store.stream("s")),
            **{"behind": MIN_ID, "upto": EntryID(upto), "least_added": None, "unacknowledged": False, **options},  # type: ignore[arg-type]  # one of its options, of its kind
        )


def test_entries_that_took_the_place_of_what_a_group_held_back_are_not_trimmed(world: World) -> None:
    """Only the first and the last entry that would go were looked at: those between them went, and were nowhere."""
    world.fill("s", 10)
    world.client.xgroup_create("s", "g", "0")
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 0
    with world.client.pipeline(transaction=True) as pipeline:
        pipeline.xdel("s", *[f"{number}-1" for number in range(6, 10)])
        pipeline.execute()
    with world.client.pipeline(transaction=True) as pipeline:  # between the first and the last, which stay as they were
        pipeline.xdel("s", "10-1")
        pipeline.execute_command("XSETID", "s", "5-1")
        for number in (6, 7, 8):
            pipeline.xadd("s", {"never": "copied"}, f"{number}-5")
        pipeline.xadd("s", {b"number": b"10", b"even": b"v" * 2}, "10-1")
        pipeline.execute()
    world.client.xgroup_setid("s", "g", "$")
    left = world.source("s")
    with pytest.raises(ChangedError, match="the copy lacks its entry 6-5"):
        trimmed_by_hand(world, "10-1")
    assert world.source("s") == left
    assert len(left) == 9


def test_nor_one_of_them_whose_content_is_another(world: World) -> None:
    made = world.fill("s", 10)
    world.archive()
    with world.client.pipeline(transaction=True) as pipeline:
        pipeline.delete("s")
        for entry_id, pairs in made.items():
            pipeline.xadd("s", {"changed": "!"} if entry_id == "5-1" else dict(pairs), entry_id)
        pipeline.execute()
    with pytest.raises(ChangedError, match="its entry 5-1 is another one"):
        trimmed_by_hand(world, "10-1")
    assert world.client.xlen("s") == 10


@pytest.mark.parametrize("minid", [(6, 2), (99,)])
def test_ids_of_any_length_are_followed_across_steps(
    world: World, monkeypatch: pytest.MonkeyPatch, minid: tuple[int, ...]
) -> None:
    """Lua's numbers have 53 bits; a step ends, and goes on, behind an ID with all digits."""
    monkeypatch.setattr(trimming, "_MINID_SINCE", minid)
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 100)
    greatest = (1 << 64) - 1
    ids = [f"9007199254740993-{seq}" for seq in (9, 10, 99, 100, 9007199254740992, 9007199254740993)]
    ids += [f"{ms}-{seq}" for ms in range(1 << 54, (1 << 54) + 240) for seq in (0, greatest - 1, greatest)]
    ids += [f"{greatest - 1}-{greatest}", f"{greatest}-0", f"{greatest}-{greatest - 2}"]
    pipeline = world.client.pipeline(transaction=False)
    for number, entry_id in enumerate(ids):
        pipeline.xadd("s", {"number": number}, entry_id)
    pipeline.execute()
    world.archive()
    done = trimmed_by_hand(world, ids[-1])
    assert (done.entries, str(done.to), done.held_back) == (len(ids), ids[-1], False)
    assert world.client.xlen("s") == 0


def test_a_step_ends_where_its_entries_are_large(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_STEP_BYTES", 1 << 10)
    calls: list[str] = []
    real = Server.call

    def counted(self: Server, doing: str, *words: object) -> object:
        calls.append(doing)
        return real(self, doing, *words)

    monkeypatch.setattr(Server, "call", counted)
    for number in range(1, 21):
        world.client.xadd("s", {"large": "x" * 500}, f"{number}-1")
    world.archive()
    world.client.xgroup_create("s", "g", "15-1")
    calls.clear()
    done = trimmed_by_hand(world, "20-1")
    assert (done.entries, str(done.to), done.held_back) == (15, "15-1", True)
    assert len(calls) >= 5
    assert set(world.source("s")) == {f"{number}-1" for number in range(16, 21)}
    assert trimmed_by_hand(world, "20-1", held_back=True).entries == 0
    world.client.xgroup_setid("s", "g", "$")
    assert trimmed_by_hand(world, "20-1", held_back=True).entries == 5


def test_what_others_left_of_many_entries_is_looked_for_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that had been copied between the first of them and the last was read, at each look."""
    world.fill("s", 2000)
    world.archive()
    world.client.xdel("s", *[f"{number}-1" for number in range(2, 2000) if number != 1000])
    read: list[int] = []
    real = Stream.range

    def counted(self: Stream, *words: Any, **named: Any) -> Any:
        found = list(real(self, *words, **named))
        read.append(len(found))
        return iter(found)

    monkeypatch.setattr(Stream, "range", counted)
    done = trimmed_by_hand(world, "2000-1", held_back=True)
    assert (done.entries, str(done.to)) == (3, "2000-1")
    assert sum(read) == 0
    assert world.client.xlen("s") == 0


@pytest.mark.parametrize("minid", [(6, 2), (99,)])
def test_before_the_greatest_id_all_is_trimmed_and_what_stays_is_noted(
    world: World, monkeypatch: pytest.MonkeyPatch, minid: tuple[int, ...]
) -> None:
    """Nothing at all was, ever, and not a word was said about it."""
    monkeypatch.setattr(trimming, "_MINID_SINCE", minid)
    greatest = f"{2**64 - 1}-{2**64 - 1}"
    world.fill("s", 30)
    world.client.xgroup_create("s", "g", "20-1")
    world.client.xadd("s", {"last": 1}, greatest)
    assert world.archive("--trim", "--force", "--dry-run")["s"]["trim_to"] == f"{2**64 - 1}-{2**64 - 2}"
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 20
    world.client.xgroup_setid("s", "g", greatest)
    for trimmed in (10, 0):
        report = world.archive("--trim", "--force")["s"]
        assert (report["trimmed"], report["held_back"]) == (trimmed, False)
        assert f"its entry {greatest} is not trimmed" in " ".join(report["notes"])
        assert set(world.source("s")) == {greatest}
    assert len(world.copy("s")) == 31
    world.client.xdel("s", greatest)
    assert greatest not in " ".join(world.archive("--trim", "--force")["s"]["notes"]), (
        "it was taken away as it was said"
    )


def test_what_was_trimmed_and_is_there_again_is_trimmed_again(world: World) -> None:
    """After a failover to a replica that had not heard of the trim, say. It stayed, and not a word was said of it."""
    made = world.fill("s", 30)
    dumped = world.client.dump("s")
    assert world.archive("--trim")["s"]["trimmed"] == 30
    world.client.restore("s", 0, dumped, replace=True)
    report = world.archive("--trim")["s"]
    assert (report["trimmed"], report["source_entries"], report["trimmed_to"]) == (30, 0, "30-1")
    assert world.copy("s") == made


def test_nor_is_it_where_it_is_not_what_was_copied(world: World) -> None:
    world.fill("s", 30)
    assert world.archive("--trim")["s"]["trimmed"] == 30
    world.client.delete("s")
    for number in range(1, 31):
        world.client.xadd("s", {"another": number}, f"{number}-1")
    report = world.archive("--trim", code=1)["s"]
    assert "is another one" in report["error"]
    assert len(world.source("s")) == 30


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("ran", [False, True])
def test_a_trim_whose_answer_is_lost_is_counted_if_it_was_done(
    world: World, monkeypatch: pytest.MonkeyPatch, *, ran: bool, held: bool
) -> None:
    """What the script took, and the connection broke before it said so, was trimmed by nobody."""
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 8)
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)
    world.fill("s", 20)
    if held:
        world.client.xgroup_create("s", "workers", "5-1")
    real, lost = Server.call, list[Any]()

    def call(server: Server, doing: str, *words: Any) -> Any:
        asks = doing.startswith("trim") and len(lost) < 2
        reply = real(server, doing, *words) if ran or not asks else [b"trimmed", 0]
        if asks and reply[0] == b"trimmed" and bool(reply[1]) == ran:
            lost.append(reply)
            with telling(server.url, doing):
                raise redis.ConnectionError("Connection closed by server.")
        return reply

    monkeypatch.setattr(Server, "call", call)
    report = world.archive("--trim")["s"]
    left = 15 if held else 0
    assert (report["trimmed"], report["source_entries"]) == (20 - left, left)
    assert len(lost) == (1 if ran and held else 2)
    assert any("counted as trimmed" in note for note in report["notes"]) == ran
    with diskstream.open(world.directory, read_only=True) as store:
        mark = load(Checkpoints(store), b"s")
    assert mark is not None
    assert (mark.trimmed, mark.trimmed_to) == (20 - left, EntryID("5-1" if held else "20-1"))


def test_what_others_removed_behind_a_trim_that_was_refused_is_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)
    world.fill("s", 20)
    real, refused = Server.call, list[str]()

    def call(server: Server, doing: str, *words: Any) -> Any:
        if doing.startswith("trim") and not refused:
            refused.append(doing)
            world.client.xdel("s", "1-1")
            with telling(server.url, doing):
                raise redis.ResponseError("BUSY Redis is busy running a script.")
        return real(server, doing, *words)

    monkeypatch.setattr(Server, "call", call)
    assert world.archive("--trim")["s"]["trimmed"] == 19


@pytest.mark.parametrize("held_back", [False, True])
def test_what_stands_in_the_way_of_a_step_is_asked_for_before_it_goes(
    world: World, monkeypatch: pytest.MonkeyPatch, held_back: bool
) -> None:
    """The copy of what comes in a later step may be in another place, which is lost."""
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 4)
    world.fill("s", 10)
    world.archive()
    asked: list[tuple[str, str]] = []

    def check(first: EntryID, last: EntryID) -> None:
        asked.append((str(first), str(last)))
        if len(asked) == 2:
            raise ChangedError("the copy", "is lost", "bring it back")

    with pytest.raises(ChangedError, match="is lost"):
        trimmed_by_hand(world, "10-1", check=check, held_back=held_back)
    assert asked == [("1-1", "4-1"), ("5-1", "8-1")]
    assert list(world.source("s")) == [f"{number}-1" for number in range(5, 11)]
