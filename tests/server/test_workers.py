"""Workers of a group that wait for entries, as most clients do: who waits is served before anything else is run."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from diskstream.server.running import Runner
from tests.server.client import packed
from tests.server.turns import Turns

CLIENTS = 4
ADD = ("XADD", "s", "*", "n", "1")
PENDING = ("XPENDING", "s", "g", "-", "+", "9")
AN_ID = re.compile(rb"(?:\$\d+\r\n)?(\d{13}-\d+)")


def wait(consumer: str) -> tuple[str, ...]:
    return ("XREADGROUP", "GROUP", "g", consumer, "COUNT", "1", "BLOCK", "0", "STREAMS", "s", ">")


BEGIN = [("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"), *[("XADD", "s", f"0-{n}", "n", "0") for n in range(1, 5)]]
BEGIN += [("XREADGROUP", "GROUP", "g", "c0", "STREAMS", "s", ">")]
WORDS = st.one_of(
    st.just(ADD),
    st.just(ADD),
    st.sampled_from(["c0", "c1", "c2", "c3"]).map(wait),
    st.sampled_from(["0-1", "0-2", "0-3", "9-9"]).map(lambda entry_id: ("XACK", "s", "g", entry_id)),
    st.sampled_from([("XLEN", "s"), PENDING, ("XADD", "s", "*", "n"), ("MULTI",), ("EXEC",), ("SET", "s", "x")]),
)


def wire(commands: list[tuple[str, ...]]) -> bytes:
    return b"".join(packed(*words) for words in commands)


def ids_as_they_come(heard: bytes) -> bytes:
    """The clock's IDs, which differ from run to run, as numbers in their order."""
    found = sorted(set(AN_ID.findall(heard)), key=lambda each: [int(part) for part in each.split(b"-")])
    places = {each: number for number, each in enumerate(found)}
    return AN_ID.sub(lambda match: b"ID %d" % places[match.group(1)], heard)


def without_idle_times(heard: bytes) -> bytes:
    """Rows of XPENDING have times: consumer, idle, deliveries."""
    return re.sub(rb"(\$2\r\nc\d\r\n):\d+\r\n", rb"\1:0\r\n", heard)


def outcome(path: Path, turns_of: list[list[list[tuple[str, ...]]]], *, runs: bool) -> Any:
    """What the clients hear, turn by turn; IDs are those of all of them together."""
    with Turns(path, CLIENTS, runs=runs) as turns:
        turns.turn([wire(BEGIN)])
        for given_ in turns_of:
            turns.turn([wire(commands) for commands in given_])
        heard = turns.finish()
        return ids_as_they_come(without_idle_times(b"\n---\n".join(heard))), turns.server.counts.commands


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(st.lists(st.lists(WORDS, max_size=3), min_size=CLIENTS, max_size=CLIENTS), max_size=6))
@example(turns_of=[[[wait("c0")], [wait("c1")], [], []], [[], [], [ADD, PENDING, ADD], [ADD, PENDING]]])
@example(turns_of=[[[wait("c0")], [wait("c1")], [], []], [[], [], [ADD, ADD, PENDING], [("XACK", "s", "g", "0-1")]]])
@example(turns_of=[[[wait("c0")], [], [], []], [[], [ADD], [wait("c2")], [ADD, PENDING, ("XLEN", "s")]]])
def test_they_hear_what_they_hear_where_all_is_run_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, turns_of: list[list[list[tuple[str, ...]]]]
) -> None:
    found = [outcome(tmp_path_factory.mktemp("store") / "s", turns_of, runs=runs) for runs in (True, False)]
    assert found[0] == found[1]


def test_what_is_added_for_a_worker_is_his_before_the_next_command(tmp_path: Path) -> None:
    with Turns(tmp_path / "s", 2) as turns:
        turns.turn([wire([("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"), wait("c0")])])
        turns.turn([b"", wire([ADD, ("XPENDING", "s", "g")])])
        assert turns.heard[1].count(b"*4\r\n:1\r\n") == 1, turns.heard[1]
        assert b"$2\r\nc0\r\n" in turns.heard[1]


def test_nothing_of_it_is_said_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while others wait an entry costs one native call, and so do acknowledgements, which are one frame."""
    one_by_one: list[bytes] = []
    run_one = Runner._run_one

    def noted(self: Runner, connection: Any, words: list[bytes]) -> None:
        one_by_one.append(words[0])
        run_one(self, connection, words)

    monkeypatch.setattr(Runner, "_run_one", noted)
    with Turns(tmp_path / "s", CLIENTS) as turns:
        turns.turn([wire(BEGIN)])
        turns.turn([wire([wait("c0")]), wire([wait("c1")])])
        one_by_one.clear()
        log = turns.server.keyspace.store(0)._log(b"s", create=False)
        assert log is not None
        before = log.native.tail[2]
        turns.turn([b"", b"", wire([("XACK", "s", "g", "0-1")]), wire([("XACK", "s", "g", "0-2")])])
        assert log.native.tail[2] == before + 1
        turns.turn([b"", b"", wire([ADD])])
        assert one_by_one == []
        assert b"-0\r\n" in turns.heard[2]
        turns.turn([b"", b"", wire([ADD, ADD])])
        assert one_by_one == [b"XADD", b"XADD"]


def test_a_refused_entry_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with Turns(tmp_path / "s", 3) as turns:
        turns.turn([wire([("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"), wait("c0")])])
        turns.turn([b"", wire([("XADD", "s", "18446744073709551615-18446744073709551615", "n", "1")])])
        turns.turn([b"", b"", wire([wait("c1")])])
        for _ in range(2):
            before = len(turns.heard[1])
            turns.turn([b"", wire([ADD])])
            assert turns.heard[1][before:].startswith(b"-ERR The stream has exhausted the last possible ID")
