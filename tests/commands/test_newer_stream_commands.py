"""Stream commands, options and errors that are younger than the Redis which tests can install: 8.2 to 8.10."""

import time
from collections.abc import Callable

import pytest

from diskstream.commands.caller import Caller
from diskstream.commands.waiting import Waiting
from tests.commands.conftest import Say


@pytest.fixture
def filled(say: Say) -> None:
    """The stream `s` with 1-1 to 5-1; the group `g`, whose `c` has 1-1 and 2-1, and `h`, which has read nothing."""
    for number in range(1, 6):
        say(f"XADD s {number}-1 n {number}")
    say("XGROUP CREATE s g 0")
    say("XGROUP CREATE s h 0")
    say("XREADGROUP GROUP g c COUNT 2 STREAMS s >")


SYNTAX = "-ERR syntax error"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XDELEX s IDS 2 1-1 9-9", "*2 :1 :-1"),
        ("XDELEX s ACKED IDS 2 1-1 5-1", "*2 :2 :2"),
        ("XDELEX s ACKED IDS 1 90-0", "*1 :2"),
        ("XDELEX s DELREF IDS 1 1-1", "*1 :1"),
        ("XDELEX s IDS 0 1-1", "-ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS x 1-1", "-ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS 2 1-1", "-ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s IDS 1 1-1 2-1", "-ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s KEEPREF ACKED 1-1", SYNTAX),
        ("XDELEX s KEEPREF IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XDELEX s IDS", "-ERR wrong number of arguments for 'xdelex' command"),
        ("XACKDEL s g IDS 3 1-1 3-1 9-9", "*3 :1 :-1 :-1"),
        ("XACKDEL s g ACKED IDS 1 1-1", "*1 :2"),
        ("XACKDEL s nog IDS 1 1-1", "*1 :-1"),
        ("XACKDEL none g IDS 2 1-1 2-1", "*2 :-1 :-1"),
        ("XNACK s g FAIL IDS 2 1-1 3-1", ":1"),
        ("XNACK s g SILENT IDS 1 1-1 RETRYCOUNT 7", ":1"),
        ("XNACK s g FATAL IDS 1 3-1 FORCE", ":1"),
        ("XNACK s g FAIL IDS 2 1-1", "-ERR number of IDs doesn't match numids"),
        ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1", "-ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-1 FOO", "-ERR Unrecognized XNACK option 'FOO'"),
        ("XNACK s nog FAIL IDS 1 1-1", "-NOGROUP No such key 's' or consumer group 'nog'"),
        ("XNACK none g FAIL IDS 1 1-1", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("XADD s DELREF MAXLEN = 4 6-1 a b", "$3 6-1"),
        ("XADD s DELREF ACKED MAXLEN 4 6-1 a b", SYNTAX),
        ("XTRIM s MAXLEN 0 ACKED", ":0"),
        ("XTRIM s MAXLEN 3 DELREF", ":2"),
        ("XADD s IDMP p 1 6-1 a b", "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("XADD s IDMP p 1 IDMPAUTO p * a b", "-ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        ("XADD s IDMPAUTO '' * a b", "-ERR syntax error, IDMPAUTO requires a non-empty producer ID"),
        ("XADD s IDMP '' 1 * a b", "-ERR syntax error, IDMP requires a non-empty producer ID"),
        ("XADD s IDMP p '' * a b", "-ERR syntax error, IDMP requires a non-empty idempotent ID"),
        ("XCFGSET s IDMP-DURATION 86400 IDMP-MAXSIZE 1", "+OK"),
        ("XCFGSET s IDMP-DURATION 0", "-ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET s IDMP-MAXSIZE 1 IDMP-MAXSIZE 2", "-ERR IDMP-MAXSIZE specified multiple times"),
        ("XCFGSET none IDMP-MAXSIZE 1", "-ERR no such key"),
        ("XIDMPRECORD s p m 1-1", "+OK"),
        ("XIDMPRECORD s p m 8-1", "-ERR No such message in stream"),
        ("XIDMPRECORD s '' m 1-1", "-ERR producer ID must be non-empty"),
        ("XIDMPRECORD s p '' 1-1", "-ERR idempotent ID must be non-empty"),
        ("XIDMPRECORD none p m 1-1", "-ERR no such key"),
        ("XREAD STREAMS s +", "*1 *2 $1 s *1 *2 $3 5-1 *2 $1 n $1 5"),
        (
            "XREAD STREAMS s none 0",
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
        ),
        (
            "XREADGROUP GROUP g c STREAMS s none 0",
            "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
        ),
        (
            "XREAD CLAIM 1 STREAMS s 0",
            "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        ("XREAD COUNT 2 MAXCOUNT 1 STREAMS s 0", "-ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("XREAD MAXCOUNT 0 STREAMS s 0", "-ERR MAXCOUNT must be a positive integer"),
        ("XREAD MAXSIZE 0 STREAMS s 0", "-ERR MAXSIZE must be a positive integer"),
        ("XREAD MAXCOUNT 1 STREAMS s s 0 3", "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1"),
        ("XSETID s 4-1", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
        (
            "XSETID s 9-1 ENTRIESADDED 4",
            "-ERR The entries_added specified in XSETID is smaller than the target stream length",
        ),
        ("XSETID s 9-1 ENTRIESADDED -1", "-ERR entries_added must be positive"),
        (
            "XSETID s 9-1 MAXDELETEDID 9-2",
            "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        ),
        ("XGROUP SETID s g + ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1"),
        (
            "XGROUP CREATE s x 0 FOO",
            "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
        ),
        (
            "XINFO STREAM s FOO",
            "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.",
        ),
        ("XINFO CONSUMERS s nog", "-NOGROUP No such consumer group 'nog' for key name 's'"),
    ],
)
def test_a_command_and_its_reply(say: Say, line: str, reply: str) -> None:
    assert say(line) == reply


def test_a_message_that_comes_again_is_not_added_again(say: Say) -> None:
    first = say("XADD s IDMP p m * a 1")
    assert say("XADD s IDMP p m * a 2") == first
    assert say("XADD s IDMPAUTO p * b 1 a 1") == say("XADD s IDMPAUTO p * a 1 b 1") != first
    assert say("XLEN s") == ":2"


@pytest.mark.usefixtures("filled")
def test_claim_comes_before_what_is_new_with_times_and_counts(say: Say) -> None:
    say("XNACK s g FATAL IDS 1 2-1")
    assert say("XREADGROUP GROUP g d COUNT 2 CLAIM 100000 STREAMS s >") == (
        "*1 *2 $1 s *2 *4 $3 2-1 *2 $1 n $1 2 :-1 :9223372036854775807 *4 $3 3-1 *2 $1 n $1 3 :0 :0"
    )


@pytest.mark.usefixtures("filled")
def test_a_history_switches_claim_off_for_the_streams_behind_it(say: Say) -> None:
    say("XADD t 1-1 a b")
    say("XGROUP CREATE t g 0")
    assert say("XREADGROUP GROUP g c COUNT 1 CLAIM 100000 STREAMS s t 0 >") == (
        "*2 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1 *2 $1 t *1 *2 $3 1-1 *2 $1 a $1 b"
    )


@pytest.mark.usefixtures("filled")
def test_the_maps_of_resp3(say: Say, caller: Caller) -> None:
    caller.protocol = 3
    assert say("XREAD COUNT 1 STREAMS s 0") == "%1 $1 s *1 *2 $3 1-1 *2 $1 n $1 1"
    assert say("XINFO GROUPS s").startswith("*2 %6 $4 name $1 g ")
    assert say("XINFO STREAM s FULL COUNT 1").startswith("%15 ")
    assert "$12 nacked-count :0 " in say("XINFO STREAM s FULL COUNT 1")


def test_what_waits_says_for_which_keys_and_answers_when_there_is_something(
    say: Say, run: Callable[[str], object], caller: Caller
) -> None:
    say("XGROUP CREATE s g $ MKSTREAM")
    reading, consuming = (
        run(line) for line in ("XREAD BLOCK 0 STREAMS s t $ $", "XREADGROUP GROUP g c BLOCK 9 STREAMS s >")
    )
    assert isinstance(reading, Waiting)
    assert isinstance(consuming, Waiting)
    assert (reading.keys, reading.until, consuming.keys) == ((b"s", b"t"), None, (b"s",))
    assert consuming.until is not None
    assert reading.again() is None
    assert consuming.again() is None
    say("XADD t 1-1 a b")
    found = reading.again()
    assert isinstance(found, list)
    assert found[0][0] == b"t"
    assert consuming.again() is None
    say("XGROUP DESTROY s g")
    with pytest.raises(
        Exception, match="NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
    ):
        consuming.again()
    caller.may_wait = False
    assert say("XREAD BLOCK 0 STREAMS s $") == "*-1"


def test_a_wait_with_claim_knows_when_an_entry_ripens(say: Say, run: Callable[[str], object]) -> None:
    say("XADD s 1-1 a b")
    say("XGROUP CREATE s g 0")
    say("XREADGROUP GROUP g c STREAMS s >")
    waiting = run("XREADGROUP GROUP g d BLOCK 0 CLAIM 3600000 STREAMS s >")
    assert isinstance(waiting, Waiting)
    ripe_at = waiting.ripe_at()
    assert ripe_at is not None
    say("XCLAIM s g c 0 1-1 IDLE 3600000")
    again = waiting.ripe_at()
    assert again is not None
    assert again < ripe_at
    found = waiting.again()
    assert isinstance(found, list)
    assert found[0][1][0][3] == 2  # delivered, and claimed


def test_a_wait_with_claim_does_not_hurry_for_an_entry_that_is_gone(say: Say, run: Callable[[str], object]) -> None:
    say("XADD s 1-1 a b")
    say("XGROUP CREATE s g 0")
    say("XREADGROUP GROUP g c STREAMS s >")
    say("XDEL s 1-1")
    waiting = run("XREADGROUP GROUP g d BLOCK 0 CLAIM 0 STREAMS s >")
    assert isinstance(waiting, Waiting)
    before = time.monotonic()
    due = waiting.ripe_at()
    assert due is not None
    assert due - before >= 0.09


def test_a_read_that_waits_looks_at_what_has_changed_alone(say: Say, run: Callable[[str], object]) -> None:
    """Hundreds may wait for the same hundred streams: what an entry costs is not to be their product."""
    waiting = run("XREAD BLOCK 0 STREAMS a b c 0 0 0")
    assert isinstance(waiting, Waiting)
    assert waiting.only is not None
    say("XADD a 1-1 n 1")
    say("XADD c 1-1 n 1")
    assert waiting.only({b"b"}) is None
    for changed, named in (({b"c"}, [b"c"]), ({b"a", b"b", b"c"}, [b"a", b"c"])):
        found = waiting.only(changed)
        assert isinstance(found, list)
        assert [name for name, _ in found] == named
    assert isinstance(waiting.again(), list)
