"""The model says what Redis 8.x said when it was asked: a transcript of a build of 2026-06, but for times."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.groups.bout import Clock
from tests.groups.model_commands import Model
from tests.groups.ops import Op, op, words
from tests.streams.commands import Refused

F = [(b"a", b"b")]

# What came before the commands of the transcript.
BEFORE = [
    op("xadd", key="s", id="1-1", fields=[(b"a", b"1")]),
    op("xadd", key="s", id="2-1", fields=[(b"a", b"2")]),
    op("xadd", key="s", id="3-1", fields=[(b"b", b"3")]),
    op("xgroup_create", key="s", group="g", id="0"),
    op("xreadgroup", group="g", consumer="c", streams=[("s", ">")], count=2),
    op("xdel", key="s", ids=["1-1"]),
]

# Those of its commands that stand for operations, in their order: each changes what the next ones find.
COMMANDS = [
    op("xrange", key="nokey", start="-", end="+"),
    op("xadd", key="nokey", nomkstream=True, id="*", fields=F),
    op("xpending", key="s", group="g"),
    op("xpending_range", key="s", group="g", start="-", end="+", count=10),
    op("xinfo_groups", key="s"),
    op("xinfo_consumers", key="s", group="g"),
    op("xreadgroup", group="g", consumer="c", streams=[("s", "0")]),
    op("xreadgroup", group="g", consumer="nobody", streams=[("s", "0")]),
    op("xclaim", key="s", group="g", consumer="zz", min_idle=0, ids=["1-1"]),
    op("xpending", key="s", group="g"),
    op("xautoclaim", key="s", group="g", consumer="zz", min_idle=999999, start="0"),
    op("xinfo_stream", key="s"),
    op("xgroup_create", key="s2", group="g2", id="$", mkstream=True),
    op("xpending", key="s2", group="g2"),
    op("xinfo_stream", key="s2"),
    op("xreadgroup", group="g2", consumer="c", streams=[("s2", ">")]),
    op("xreadgroup", group="g2", consumer="c", streams=[("s2", "0")]),
    op("xgroup_setid", key="s", group="g", id="2-5"),
    op("xinfo_groups", key="s"),
    op("xlen", key="nokey"),
    op("xtrim", key="nokey", trim=("MAXLEN", "", 0)),
    op("xack", key="nokey", group="g", ids=["1-1"]),
    op("xdel", key="nokey", ids=["1-1"]),
    op("xinfo_stream", key="nokey"),
    op("xsetid", key="nokey", id="1-1"),
    op("xgroup_create", key="nokey", group="g", id="$"),
    op("xadd", key="s", id="0-0", fields=F),
    op("xadd", key="s", id="1-1", fields=F),
    op("xadd", key="s", id="bad", fields=F),
    op("xreadgroup", group="nog", consumer="c", streams=[("s", ">")]),
    op("xackdel", key="nokey", group="g", ids=["1-1"]),
    op("xdelex", key="nokey", ids=["1-1", "2-2"]),
    op("xrange", key="s", start="(-", end="+"),
    op("xrange", key="s", start="-", end="(0-0"),
    op("xautoclaim", key="s", group="g", consumer="c", min_idle=0, start="0", count=0),
    op("xgroup_create", key="s", group="g", id="0"),
    op("xgroup_destroy", key="s", group="nog"),
    op("xgroup_delconsumer", key="s", group="g", consumer="nobody"),
    op("xgroup_createconsumer", key="s", group="g", consumer="c"),
    op("xgroup_setid", key="s", group="nog", id="0"),
    op("xadd", key="s", id="18446744073709551615-18446744073709551615", fields=F),
    op("xadd", key="s", id="*", fields=F),
    op("xadd", key="s", id="18446744073709551615-*", fields=F),
]


def line_of(given: Op) -> str:
    return " ".join(word.decode() if isinstance(word, bytes) else str(word) for word in words(given)[0])


class Transcript:
    """The replies of RESP2, command by command."""

    def __init__(self, path: Path) -> None:
        self._lines = iter(path.read_text(encoding="latin-1").partition("=== HELLO 3")[0].splitlines())

    def reply_to(self, given: Op) -> Any:
        """The reply to the next command that reads so."""
        wanted = f"   {line_of(given)} -> "
        found = next((line for line in self._lines if line.startswith(wanted)), None)
        assert found is not None, f"the transcript has no such command: {wanted}"
        return _parsed(iter(found[len(wanted) :].split(" ")))


def _parsed(parts: Iterator[str]) -> Any:
    """One RESP2 value, its lines split at spaces: of what is looked at, only errors have any in them."""
    first = next(parts)
    kind, rest = first[0], first[1:]
    if kind == "-":
        text = " ".join([rest, *parts]).strip()
        return Refused(text.removeprefix("ERR "))
    if kind == ":":
        return int(rest)
    if kind == "+":
        return rest.encode()
    if rest == "-1":
        return None
    if kind == "$":
        return next(parts).encode()
    return [_parsed(parts) for _ in range(int(rest))]


def without_times(given: Op, reply: Any) -> Any:
    """A reply as it is whatever the time, maps as dictionaries."""
    if given.name == "xpending_range":
        return [[id, owner, deliveries] for id, owner, _, deliveries in reply]
    if isinstance(reply, Refused) or not given.name.startswith("xinfo"):
        return reply
    if given.name == "xinfo_stream":
        return _kept(reply)
    return [_kept(item) for item in reply]


def _kept(item: Any) -> dict[bytes, Any]:
    found = item if isinstance(item, dict) else dict(zip(item[::2], item[1::2], strict=True))
    return {name: value for name, value in found.items() if not name.startswith((b"radix-tree", b"idle", b"inactive"))}


@pytest.fixture
def transcript(shared_dir: Path) -> Transcript:
    path = shared_dir / "reference" / "golden" / "redis-8.x.txt"
    if not path.is_file():
        pytest.skip("needs the transcript of Redis 8.x in ../shared/reference/golden, which is not there")
    return Transcript(path)


def test_the_model_replies_as_redis_8_did(transcript: Transcript) -> None:
    model = Model(Clock(1_000))
    for given in BEFORE:
        model.run(given)
    for given in COMMANDS:
        assert without_times(given, model.run(given)) == without_times(given, transcript.reply_to(given)), str(given)
