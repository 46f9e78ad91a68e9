"""Which entries are wanted."""

import time
from pathlib import Path

import pytest

import diskstream
from diskstream import ArgumentError, Entry
from diskstream.replaying import parse_condition
from diskstream.replaying.conditions import MAX_PATTERN, MAX_SEARCHED_BYTES


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    with diskstream.open(tmp_path / "store") as store:
        pairs = [("host", "web-1"), ("status", "503"), ("took", "1.5e2"), ("tag", "a"), ("tag", "b"), ("odd=", "x~y")]
        store.stream("x").add([*pairs, (b"raw\xff", b"\x00\xff"), ("empty", "")])
        (found,) = store.stream("x")
        return found


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("host=web-1", True),
        ("host=web", False),
        ("host!=web-1", False),
        ("host!=web-2", True),
        ("missing=", False),
        ("missing!=x", True),
        ("empty=", True),
        ("tag=a", True),
        ("tag=b", True),
        ("tag!=b", False),
        ("host~^web-[0-9]$", True),
        ("host~WEB", False),
        ("host~(?i)WEB", True),
        ("host!~web", False),
        ("missing!~web", True),
        ("status>500", True),
        ("status>503", False),
        ("status>=503", True),
        ("status<503.5", True),
        ("status<=502", False),
        ("took>149", True),
        ("took<151", True),
        ("host>1", False),
        ("host<1", False),
        ("missing>1", False),
        ("status>=-1e300", True),
        (b"raw\xff=\x00\xff", True),
        (b"raw\xff~\xff$", True),
        ("a~(a|b)+?c|x{2,3}|[(*+]{3}", False),
    ],
)
def test_conditions(entry: Entry, condition: str | bytes, wanted: bool) -> None:
    try:
        assert parse_condition(condition)(entry) is wanted
    except ArgumentError:
        assert "(a|b)+" in str(condition)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("host", "no condition"),
        ("", "no condition"),
        ("=x", "no condition"),
        ("status>many", "no number"),
        ("status>", "no number"),
        ("status>nan", "no number"),
        ("status<inf", "no number"),
        ("host~(", "regular expression"),
        ("host~*", "regular expression"),
        ("host~" + "a" * (MAX_PATTERN + 1), "at most"),
    ],
)
def test_what_is_no_condition_is_refused(condition: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        parse_condition(condition)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*$",
        "(?:a+)+$",
        "(?P<n>a+)*$",
        "((a+))+$",
        "(a|a)*$",
        "(a|ab|b)+$",
        "(a{1,9}){1,9}$",
        "(a?){40}a{40}",
        r"(a+)\1+$",
        "(?=(a+))b",
        "(?<!a)b",
        "(?x)(a+) *$",
        "(?ix)(a+) *$",
        ".*.*.*.*.*x",
    ],
)
def test_expressions_that_may_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ArgumentError):
        parse_condition(f"field~{pattern}")


def test_the_worst_that_is_let_through_ends(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"v": "a" * 200, "w": "b" * MAX_SEARCHED_BYTES + "c"})
        (found,) = store.stream("x")
    began = time.process_time()
    assert not parse_condition("v~a*a*a*b$")(found)
    assert not parse_condition("w~c")(found), "beyond what is searched"
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    "pattern", ["a{2}b{3}", r"\(a+\)+", "[(a+)]+", "(abc)+", "(?:ab)*x", "^a.*b.*c$", "(a|b)c", "(a+)?"]
)
def test_common_expressions_are_taken(pattern: str) -> None:
    parse_condition(f"field~{pattern}")
