"""Names that cannot be, and streams and groups that are not there or are: refused in Redis's words, nothing changed."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from diskstream import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    DiskstreamError,
    Group,
    GroupExistsError,
    LimitError,
    NoGroupError,
    NoSuchStreamError,
    Store,
)
from diskstream._native import MAX_NAME_BYTES
from diskstream.errors import XGROUP_NEEDS_STREAM
from tests.group_specs.clock import Clock
from tests.group_specs.shown import dump
from tests.group_specs.world import Call, Refusal, World, cases, check

XGROUP_KEY = "The XGROUP subcommand requires the key to exist"
# Redis says the one in XGROUP and XINFO, the other in the commands that read and claim.
# What Redis says of a group that is not there, and of a key that is not there, by the command that a call stands for.
OTHERS = r"^NOGROUP No such key '{key}' or consumer group '{group}':", None
OF_XREADGROUP = r"^NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option:", None
OF_XGROUP = (
    r"^NOGROUP No such consumer group '{group}' for key name '{key}':",
    f"^{re.escape(XGROUP_NEEDS_STREAM[:-1])}:",
)
OF_XINFO = r"^NOGROUP No such consumer group '{group}' for key name '{key}':", "^no such key:"


@pytest.fixture
def opening(clock: Clock) -> dict[str, Any]:
    """One kind of store is enough: what is refused gets to none of them."""
    return {"fsync": "os", "clock": clock, "pending_rows": 1}


@pytest.fixture
def world(store: Store) -> World:
    """A group in use."""
    return World(store)


# --- names ------------------------------------------------------------------------------------------------------------

WITH_NAME: dict[str, Callable[[World, Any], Any]] = {
    "group": lambda w, name: w.stream.group(name),
    "group not made": lambda w, name: w.stream.group(name, create=False),
    "create_group": lambda w, name: w.stream.create_group(name),
    "consumer": lambda w, name: w.group.consumer(name),
    "create_consumer": lambda w, name: w.group.create_consumer(name),
    "delete_consumer": lambda w, name: w.group.delete_consumer(name),
    "pending_range": lambda w, name: w.group.pending_range(consumer=name),
    "read_group's group": lambda w, name: w.store.read_group(name, "alice", {"s": ">"}),
    "read_group's consumer": lambda w, name: w.store.read_group("g", name, {"s": ">"}),
    "producer": lambda w, name: w.stream.add({"n": 1}, producer=name, message_id="m"),
    "message": lambda w, name: w.stream.add({"n": 1}, producer="p", message_id=name),
    "record's producer": lambda w, name: w.stream.record_idempotent(name, "m", "1-0"),
    "record's message": lambda w, name: w.stream.record_idempotent("p", name, "1-0"),
}


@pytest.mark.parametrize("what", list(WITH_NAME))
def test_names_that_are_too_long(world: World, what: str) -> None:
    for name in ("n" * (MAX_NAME_BYTES + 1), b"\xff" * (MAX_NAME_BYTES + 1), "ö" * (MAX_NAME_BYTES // 2 + 1)):
        check(world, lambda w, name=name: WITH_NAME[what](w, name), LimitError, str(MAX_NAME_BYTES))  # type: ignore[misc]  # bound now


@pytest.mark.parametrize("what", list(WITH_NAME))
def test_names_of_the_wrong_type(world: World, what: str) -> None:
    wrong: list[Any] = [5, 1.5, ["g"], bytearray(b"g"), object()]
    if what not in ("pending_range", "producer", "message"):  # where None says that there is none
        wrong.append(None)
    for name in wrong:
        check(world, lambda w, name=name: WITH_NAME[what](w, name), ArgumentTypeError, "str or bytes")  # type: ignore[misc]  # bound now


@pytest.mark.parametrize("what", list(WITH_NAME))
def test_a_text_that_is_no_utf_8(world: World, what: str) -> None:
    before = dump(world.store)
    with pytest.raises(ArgumentError):
        WITH_NAME[what](world, "\ud800")
    assert dump(world.store) == before


def test_the_longest_names_are_taken(world: World) -> None:
    longest = b"n" * MAX_NAME_BYTES
    group = world.stream.group(longest, start="0")
    assert [entry.ack() for entry in group.consumer(longest).read(count=2)] == [True, True]
    first = world.stream.add({"n": 1}, producer=longest, message_id=longest)
    assert world.stream.add({"n": 1}, producer=longest, message_id=longest) == first


# --- what is not there ------------------------------------------------------------------------------------------------

WITH_GROUP: dict[str, Callable[[Group], Any]] = {
    "info": lambda group: group.info(),
    "set_id": lambda group: group.set_id("0"),
    "create_consumer": lambda group: group.create_consumer("c"),
    "delete_consumer": lambda group: group.delete_consumer("c"),
    "consumers": lambda group: group.consumers(),
    "nack": lambda group: group.nack("1-0"),
    "nack by force": lambda group: group.nack("1-0", force=True),
    "pending": lambda group: group.pending(),
    "pending_range": lambda group: group.pending_range(),
    "a consumer's": lambda group: group.consumer("c").pending_range(),
    "read": lambda group: group.consumer("c").read(),
    "read and wait": lambda group: group.consumer("c").read(block=0),
    "history": lambda group: group.consumer("c").read("0"),
    "read_group": lambda group: group.stream._store.read_group(group.name, "c", {group.stream.name: ">"}),
    "claim": lambda group: group.consumer("c").claim("1-0", force=True),
    "claim_ids": lambda group: group.consumer("c").claim_ids("1-0"),
    "autoclaim": lambda group: group.consumer("c").autoclaim(0),
    "autoclaim_ids": lambda group: group.consumer("c").autoclaim_ids(0),
    "entries": lambda group: list(group.consumer("c").entries()),
}


WORDS = {
    **dict.fromkeys(["set_id", "create_consumer", "delete_consumer"], OF_XGROUP),
    **dict.fromkeys(["info", "consumers"], OF_XINFO),
    **dict.fromkeys(["read", "read and wait", "history", "read_group", "entries"], OF_XREADGROUP),
}


@pytest.mark.parametrize("what", list(WITH_GROUP))
@pytest.mark.parametrize(("key", "name"), [("s", "none"), ("none", "g"), ("none", "none")])
def test_a_group_that_is_not_there(world: World, what: str, key: str, name: str) -> None:
    before = dump(world.store)
    no_group, no_key = WORDS.get(what, OTHERS)
    words = (no_key if key == "none" else None) or no_group.format(group=name, key=key)
    with pytest.raises(NoGroupError, match=words) as caught:
        WITH_GROUP[what](world.missing(key, name))
    assert (caught.value.stream, caught.value.group) == (key.encode(), name.encode())
    assert isinstance(caught.value, LookupError)
    assert dump(world.store) == before


@pytest.mark.parametrize("name", [b"\xff'\n", "Zoë".encode()])
def test_any_name_can_be_shown(world: World, name: bytes) -> None:
    with pytest.raises(NoGroupError, match="NOGROUP") as caught:
        world.stream.group(name, create=False).info()
    assert caught.value.group == name


MISSING: list[Refusal] = [
    ("groups", lambda w: w.store.stream("none").groups(), NoSuchStreamError, "no such key"),
    ("info_full", lambda w: w.store.stream("none").info_full(), NoSuchStreamError, "no such key"),
    ("create_group", lambda w: w.store.stream("none").create_group("g"), NoSuchStreamError, XGROUP_KEY),
    ("destroy", lambda w: w.missing("none", "g").destroy(), NoSuchStreamError, XGROUP_KEY),
    (
        "existing group",
        lambda w: w.stream.create_group("g"),
        GroupExistsError,
        "BUSYGROUP Consumer Group name already exists",
    ),
    (
        "existing group, create new",
        lambda w: w.stream.group("g", start="$", create="new"),
        GroupExistsError,
        "BUSYGROUP Consumer Group name already exists",
    ),
]


@cases(MISSING)
def test_streams_and_groups_that_are_or_are_not(
    world: World, call: Call, error: type[DiskstreamError], words: str
) -> None:
    check(world, call, error, words)


def test_a_closed_store(world: World) -> None:
    delivery = world.mine[0]
    world.store.close()
    for what, call in WITH_GROUP.items():
        with pytest.raises(ClosedError):
            call(world.group)
            pytest.fail(what)
    for other in (
        delivery.ack,
        delivery.nack,
        world.group.exists,
        world.group.destroy,
        lambda: world.group.ack("1-0"),
        lambda: world.group.ack_delete("1-0"),
        world.stream.groups,
        world.stream.info_full,
        lambda: world.stream.create_group("h"),
        lambda: world.stream.delete_entries("1-0"),
        lambda: world.stream.configure_idempotence(max_size=5),
        lambda: world.stream.record_idempotent("p", "m", "1-0"),
    ):
        with pytest.raises(ClosedError):
            other()
