"""IDs, numbers and options that cannot be: refused with a typed error in Redis's words, and nothing is changed."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from diskstream import ArgumentError, ArgumentTypeError, DiskstreamError, InvalidIDError, NoSuchStreamError, Store
from tests.group_specs.clock import Clock
from tests.group_specs.world import Call, Refusal, World, cases, check

INVALID_ID = "Invalid stream ID specified as stream command argument"
NUMBER = "value is not an integer or out of range"


@pytest.fixture
def opening(clock: Clock) -> dict[str, Any]:
    """One kind of store is enough: what is refused gets to none of them."""
    return {"fsync": "os", "clock": clock, "pending_rows": 1}


@pytest.fixture
def world(store: Store) -> World:
    """A group in use."""
    return World(store)


# --- IDs --------------------------------------------------------------------------------------------------------------

WITH_ID: dict[str, Callable[[World, Any], Any]] = {
    "create_group": lambda w, given: w.stream.create_group("new", given),
    "group": lambda w, given: w.stream.group("new", start=given),
    "group of no stream": lambda w, given: w.store.stream("none").group("new", start=given),
    "set_id": lambda w, given: w.group.set_id(given),
    "read": lambda w, given: w.alice.read(given),
    "read_group": lambda w, given: w.read_group({"s": given}),
    "ack": lambda w, given: w.group.ack("1-0", given),
    "ack_delete": lambda w, given: w.group.ack_delete("1-0", given),
    "nack": lambda w, given: w.group.nack("1-0", given),
    "claim": lambda w, given: w.alice.claim("3-0", given),
    "claim_ids": lambda w, given: w.alice.claim_ids("3-0", given),
    "last_id": lambda w, given: w.alice.claim("3-0", last_id=given),
    "autoclaim": lambda w, given: w.alice.autoclaim(0, given),
    "autoclaim_ids": lambda w, given: w.alice.autoclaim_ids(0, given),
    "pending from": lambda w, given: w.group.pending_range(given),
    "pending to": lambda w, given: w.group.pending_range("-", given),
    "delete_entries": lambda w, given: w.stream.delete_entries("1-0", given),
    "record_idempotent": lambda w, given: w.stream.record_idempotent("p", "m", given),
    "trim": lambda w, given: w.stream.trim(minid=given, ref="DELREF"),
}
MALFORMED: list[Any] = ["", "x", "5-", "-5", "5-1-1", "5-*", "1.5", " 1", f"{2**64}", f"1-{2**64}", b"\xff", "*"]
MALFORMED += [1.5, -1, 2**64, (1,), (1, 2, 3), (1, -1), object(), None, True, False, (1, True)]
# Where a sign has a meaning of its own.
SIGNS: dict[str, tuple[str, ...]] = {
    "create_group": ("$",),
    "group": ("$",),
    "group of no stream": ("$",),
    "set_id": ("$", "-", "+"),
    "read": (">", "$", "+"),
    "read_group": (">", "$", "+"),
    "autoclaim": ("-", "+"),
    "autoclaim_ids": ("-", "+"),
    "pending from": ("-", "+"),
    "pending to": ("-", "+"),
}
EXCLUSIVE = ("autoclaim", "autoclaim_ids", "pending from", "pending to")


@pytest.mark.parametrize("what", list(WITH_ID))
def test_what_is_no_id(world: World, what: str) -> None:
    for given in MALFORMED:
        if given is None and what in ("last_id", "trim"):
            continue  # where it says that there is none
        check(world, lambda w, given=given: WITH_ID[what](w, given), InvalidIDError, INVALID_ID)  # type: ignore[misc]  # bound now


@pytest.mark.parametrize("what", list(WITH_ID))
def test_signs_where_they_mean_nothing(world: World, what: str) -> None:
    for sign in ("$", "-", "+", ">"):
        if sign not in SIGNS.get(what, ()):
            check(world, lambda w, sign=sign: WITH_ID[what](w, sign), InvalidIDError, INVALID_ID)  # type: ignore[misc]  # bound now
    if what not in EXCLUSIVE:
        check(world, lambda w: WITH_ID[what](w, "(1-0"), InvalidIDError, INVALID_ID)


@pytest.mark.parametrize("sign", ["$", "+", b"$", b"+"])
@pytest.mark.parametrize("what", ["read", "read_group"])
def test_a_consumer_has_no_end_to_read_from(world: World, what: str, sign: str | bytes) -> None:
    shown = sign if isinstance(sign, str) else sign.decode()
    words = (
        f"The {shown} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
        "specifying a proper ID, or use the > ID to get new messages. "
        f"The {shown} ID would just return an empty result set."
    )
    check(world, lambda w: WITH_ID[what](w, sign), ArgumentError, words)


@pytest.mark.parametrize(
    ("what", "given", "words"),
    [
        *[(what, f"({2**64 - 1}-{2**64 - 1}", "invalid start ID for the interval") for what in EXCLUSIVE[:3]],
        ("pending to", "(0-0", "invalid end ID for the interval"),
    ],
)
def test_nothing_lies_beyond_the_ends(world: World, what: str, given: str, words: str) -> None:
    check(world, lambda w: WITH_ID[what](w, given), ArgumentError, words)


# --- numbers and words ------------------------------------------------------------------------------------------------

NUMBERS: list[Refusal] = [
    ("max_count 0", lambda w: w.alice.read(max_count=0), ArgumentError, "MAXCOUNT must be a positive integer"),
    ("max_count -1", lambda w: w.alice.read(max_count=-1), ArgumentError, "MAXCOUNT must be a positive integer"),
    ("max_bytes 0", lambda w: w.alice.read(max_bytes=0), ArgumentError, "MAXSIZE must be a positive integer"),
    (
        "max_count < count",
        lambda w: w.alice.read(count=2, max_count=1),
        ArgumentError,
        "MAXCOUNT must be greater than or equal to COUNT",
    ),
    ("block -1", lambda w: w.alice.read(block=-1), ArgumentError, "timeout is negative"),
    ("block -0.5", lambda w: w.read_group({"s": ">"}, block=-0.5), ArgumentError, "timeout is negative"),
    ("block nan", lambda w: w.alice.read(block=float("nan")), ArgumentError, "timeout is not an integer"),
    ("claim_ms -1", lambda w: w.alice.read(claim_ms=-1), ArgumentError, "min-idle-time must be a positive integer"),
    ("history claim_ms", lambda w: w.alice.read("0", claim_ms=-1), ArgumentError, "min-idle-time must be a positive"),
    ("autoclaim 0", lambda w: w.alice.autoclaim(0, count=0), ArgumentError, "COUNT must be > 0"),
    ("autoclaim -1", lambda w: w.alice.autoclaim_ids(0, count=-1), ArgumentError, "COUNT must be > 0"),
    ("autoclaim most", lambda w: w.alice.autoclaim(0, count=2**63 - 1), ArgumentError, "COUNT too high."),
    (
        "claim retry_count",
        lambda w: w.alice.claim("3-0", retry_count=-1),
        ArgumentError,
        "Invalid RETRYCOUNT option argument for XCLAIM",
    ),
    (
        "nack retry_count",
        lambda w: w.group.nack("1-0", retry_count=-1),
        ArgumentError,
        "Invalid RETRYCOUNT value, must be >= 0",
    ),
    *[
        (
            f"nack {mode!r}",
            lambda w, mode=mode: w.group.nack("1-0", mode=mode),
            ArgumentError,
            "mode must be SILENT, FAIL, or FATAL",
        )
        for mode in ("", "KEEP", None, 1)
    ],
    ("delivery nack", lambda w: w.mine[0].nack("KEEP"), ArgumentError, "mode must be SILENT, FAIL, or FATAL"),
    *[
        (f"entries_read in {what}", call, ArgumentError, "value for ENTRIESREAD must be positive or -1")
        for what, call in {
            "create_group": lambda w: w.stream.create_group("new", entries_read=-2),
            "group": lambda w: w.stream.group("new", entries_read=-2),
            "group of a new stream": lambda w: w.store.stream("new").group("new", entries_read=-2),
            "set_id": lambda w: w.group.set_id("0", entries_read=-2),
        }.items()
    ],
    *[
        (f"ref {ref!r} in {what}", lambda w, call=call, ref=ref: call(w, ref), ArgumentError, "syntax error")
        for ref, (what, call) in itertools.product(
            ("", "acked", "KEEP"),
            {
                "add": lambda w, ref: w.stream.add({"n": 1}, ref=ref),
                "add with maxlen": lambda w, ref: w.stream.add({"n": 1}, ref=ref, maxlen=1),
                "add_many": lambda w, ref: w.stream.add_many([{"n": 1}], ref=ref, maxlen=1),
                "trim": lambda w, ref: w.stream.trim(maxlen=1, ref=ref),
                "delete_entries": lambda w, ref: w.stream.delete_entries("1-0", ref=ref),
                "ack_delete": lambda w, ref: w.group.ack_delete("1-0", ref=ref),
            }.items(),
        )
    ],
    ("create", lambda w: w.stream.group("new", create="old"), ArgumentError, "create"),
]


@cases(NUMBERS)
def test_numbers_and_words_out_of_range(world: World, call: Call, error: type[DiskstreamError], words: str) -> None:
    check(world, call, error, words)


WITH_NUMBER: dict[str, tuple[Callable[[World, Any], Any], str]] = {
    "count": (lambda w, n: w.alice.read(count=n), NUMBER),
    "max_count": (lambda w, n: w.alice.read(max_count=n), NUMBER),
    "max_bytes": (lambda w, n: w.alice.read(max_bytes=n), NUMBER),
    "claim_ms": (lambda w, n: w.alice.read(claim_ms=n), "min-idle-time is not an integer or out of range"),
    "pending count": (lambda w, n: w.group.pending_range(count=n), NUMBER),
    "pending idle": (lambda w, n: w.group.pending_range(idle_ms=n), NUMBER),
    "min idle": (lambda w, n: w.alice.claim("3-0", min_idle_ms=n), "Invalid min-idle-time argument for XCLAIM"),
    "claim idle": (lambda w, n: w.alice.claim("3-0", idle_ms=n), "Invalid IDLE option argument for XCLAIM"),
    "claim time": (lambda w, n: w.alice.claim("3-0", time_ms=n), "Invalid TIME option argument for XCLAIM"),
    "claim retries": (
        lambda w, n: w.alice.claim("3-0", retry_count=n),
        "Invalid RETRYCOUNT option argument for XCLAIM",
    ),
    "autoclaim idle": (lambda w, n: w.alice.autoclaim(n), "Invalid min-idle-time argument for XAUTOCLAIM"),
    "autoclaim count": (lambda w, n: w.alice.autoclaim(0, count=n), NUMBER),
    "nack retries": (lambda w, n: w.group.nack("1-0", retry_count=n), ""),
    "entries_read": (lambda w, n: w.group.set_id("0", entries_read=n), NUMBER),
    "info_full": (lambda w, n: w.stream.info_full(n), NUMBER),
    "duration": (lambda w, n: w.stream.configure_idempotence(duration_s=n), "IDMP-DURATION"),
    "size": (lambda w, n: w.stream.configure_idempotence(max_size=n), "IDMP-MAXSIZE"),
}


@pytest.mark.parametrize("what", list(WITH_NUMBER))
def test_what_is_no_number(world: World, what: str) -> None:
    call, words = WITH_NUMBER[what]
    for number in ("1", 1.0, True, b"1", [1]):
        check(world, lambda w, number=number: call(w, number), ArgumentTypeError, words)  # type: ignore[misc]  # bound now


@pytest.mark.parametrize("what", list(WITH_NUMBER))
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_what_has_more_than_64_bits(world: World, what: str, number: int) -> None:
    call, words = WITH_NUMBER[what]
    check(world, lambda w: call(w, number), ArgumentError, words)


@pytest.mark.parametrize("block", ["1", b"1", [1], pytest.param(10**400, id="more than a float holds")])
@pytest.mark.parametrize("count", [None, 1])
def test_what_is_no_time(world: World, block: Any, count: int | None) -> None:
    words = "timeout is not an integer or out of range"
    check(world, lambda w: w.alice.read(count=count, block=block), ArgumentError, words)


# --- idempotent appends -----------------------------------------------------------------------------------------------

MESSAGES: list[Refusal] = [
    (
        "no producer",
        lambda w: w.stream.add({"n": 1}, message_id="m"),
        ArgumentError,
        "requires a non-empty producer ID",
    ),
    (
        "empty producer",
        lambda w: w.stream.add({"n": 1}, producer="", message_id="m"),
        ArgumentError,
        "syntax error, IDMP requires a non-empty producer ID",
    ),
    (
        "empty producer, automatic",
        lambda w: w.stream.add({"n": 1}, producer=b""),
        ArgumentError,
        "syntax error, IDMPAUTO requires a non-empty producer ID",
    ),
    (
        "empty message",
        lambda w: w.stream.add({"n": 1}, producer="p", message_id=""),
        ArgumentError,
        "syntax error, IDMP requires a non-empty idempotent ID",
    ),
    *[
        (
            f"id {given}",
            lambda w, given=given: w.stream.add({"n": 1}, given, producer="p", message_id="m"),
            ArgumentError,
            "syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
        )
        for given in ("9999999999999-0", "9999999999999-*", (2**50, 1))
    ],
    ("no fields", lambda w: w.stream.add({}, producer="p"), ArgumentError, ""),
    *[
        (
            f"duration {value}",
            lambda w, value=value: w.stream.configure_idempotence(duration_s=value),
            ArgumentError,
            "IDMP-DURATION must be between 1 and 86400 seconds",
        )
        for value in (0, -1, 86_401)
    ],
    *[
        (
            f"size {value}",
            lambda w, value=value: w.stream.configure_idempotence(max_size=value),
            ArgumentError,
            "IDMP-MAXSIZE must be between 1 and 10000 entries",
        )
        for value in (0, -1, 10_001)
    ],
    (
        "one of both out of range",
        lambda w: w.stream.configure_idempotence(duration_s=5, max_size=0),
        ArgumentError,
        "IDMP-MAXSIZE must be between",
    ),
    ("nothing", lambda w: w.stream.configure_idempotence(), ArgumentError, "At least one parameter must be specified"),
    (
        "configure no stream",
        lambda w: w.store.stream("none").configure_idempotence(max_size=5),
        NoSuchStreamError,
        "no such key",
    ),
    (
        "record no producer",
        lambda w: w.stream.record_idempotent("", "m", "1-0"),
        ArgumentError,
        "producer ID must be non-empty",
    ),
    (
        "record no message",
        lambda w: w.stream.record_idempotent("p", "", "1-0"),
        ArgumentError,
        "idempotent ID must be non-empty",
    ),
    (
        "record no entry",
        lambda w: w.stream.record_idempotent("p", "m", "9-9"),
        ArgumentError,
        "No such message in stream",
    ),
    ("record gone", lambda w: w.stream.record_idempotent("p", "m", "2-0"), ArgumentError, "No such message in stream"),
    (
        "record another's",
        lambda w: w.stream.record_idempotent("shop", "m6", "1-0"),
        ArgumentError,
        "IID already exists for this producer with a different stream ID",
    ),
    (
        "record no stream",
        lambda w: w.store.stream("none").record_idempotent("p", "m", "1-0"),
        NoSuchStreamError,
        "no such key",
    ),
]


@cases(MESSAGES)
def test_messages_and_windows(world: World, call: Call, error: type[DiskstreamError], words: str) -> None:
    check(world, call, error, words)
