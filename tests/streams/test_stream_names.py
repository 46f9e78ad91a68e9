"""Names of streams: any bytes up to the limit, whatever a file system makes of them."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ArgumentError, ArgumentTypeError, LimitError, Store

LIMIT = 4096

ODD = [
    b".",
    b"..",
    b"...",
    b"/",
    b"//",
    b"../../etc/passwd",
    b"/etc/passwd",
    b"\x00",
    b"a\x00b",
    b"a",
    b"A",
    b"aA",
    b"Aa",
    b"%",
    b"%61",
    b"%2f",
    b"~",
    b"a~b",
    b" ",
    b"\n",
    b"-",
    b".new-1",
    b".deleted-1",
    b"name",
    b"ctl",
    b"quarantine",
    b"CON",
    b"con",
    b"a.",
    b"a ",
    b"\xff\xfe",
    "größe".encode(),
    "gro\u0308ße".encode(),
    bytes(range(256)),
    b"x" * 199,
    b"x" * 200,
    b"x" * 201,
    b"X" * 67,
    b"x" * 255,
    b"x" * 256,
    b"x" * (LIMIT - 1) + b"a",
    b"x" * (LIMIT - 1) + b"b",
    b"\xff" * LIMIT,
    b"/" * LIMIT,
]


def test_streams_of_odd_names_live_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with diskstream.open(path) as store:
        for number, name in enumerate(ODD):
            store.stream(name).add({"number": number}, "1-0")
        assert store.streams() == sorted(ODD)
    assert [each.name for each in tmp_path.iterdir()] == ["store"]
    with diskstream.open(path) as store:
        assert store.streams() == sorted(ODD)
        for number, name in enumerate(ODD):
            assert store.exists(name)
            assert [entry["number"] for entry in store.stream(name)] == [b"%d" % number]
            assert store.stream(name).name == name
        assert store.verify().ok


def test_no_two_names_share_a_directory_even_where_case_is_folded(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        for name in ODD:
            store.stream(name).add({"a": 1})
        directories = [each.name for each in (tmp_path / "store" / "streams").iterdir()]
    assert len(directories) == len(ODD)
    assert len({name.casefold() for name in directories}) == len(ODD)
    assert all(len(name.encode()) <= 255 and name.isascii() and not name.startswith(".") for name in directories)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.binary(min_size=1, max_size=40) | st.binary(min_size=150, max_size=300))
def test_any_bytes_are_a_name(store: Store, name: bytes) -> None:
    stream = store.stream(name)
    stream.add({"name": name})
    assert name in store.streams()
    assert all(entry["name"] == name for entry in stream)
    assert store.delete(name)
    assert not store.exists(name)


def test_text_is_its_utf8(store: Store) -> None:
    store.stream("größe").add({"a": 1})
    assert store.streams() == ["größe".encode()]
    assert store.exists("größe".encode())
    assert store.stream("größe").name == "größe".encode()
    # What a file name held that was no UTF-8 comes as surrogates, and goes back as the bytes that it was.
    assert store.stream("\udcff").name == b"\xff"


def test_odd_names_can_be_renamed_into_each_other_and_deleted(tmp_path: Path) -> None:
    names = [b"..", b"/", b"A", b"x" * LIMIT, b"\xff" * 300, b"plain"]
    with diskstream.open(tmp_path / "store") as store:
        store.stream(names[0]).add({"a": 1}, "5-3")
        for old, new in itertools.pairwise([*names, names[0]]):
            store.rename(old, new)
            assert store.streams() == [new]
    for name in names[1:]:
        with diskstream.open(tmp_path / "store") as store:
            store.rename(store.streams()[0], name)
        with diskstream.open(tmp_path / "store") as store:
            assert store.streams() == [name]
            assert [str(entry.id) for entry in store.stream(name)] == ["5-3"]
    with diskstream.open(tmp_path / "store") as store:
        assert store.delete(names[-1])
        assert store.streams() == []
    assert list((tmp_path / "store" / "streams").iterdir()) == []


@pytest.mark.parametrize("name", ["x" * (LIMIT + 1), b"\x00" * (LIMIT + 1), "ß" * (LIMIT // 2 + 1)])
def test_a_name_over_the_limit_is_refused(store: Store, name: str | bytes) -> None:
    length = len(name.encode() if isinstance(name, str) else name)
    for call in (store.stream, store.exists, store.delete, lambda given: store.read({given: "0"})):
        with pytest.raises(LimitError, match=r"^Elements are too large to be stored: the name of a stream") as caught:
            call(name)
        assert (caught.value.limit, caught.value.found) == (LIMIT, length)
    store.stream("x").add({"a": 1})
    with pytest.raises(LimitError):
        store.rename("x", name)
    assert store.streams() == [b"x"]


@pytest.mark.parametrize("name", ["", b""])
def test_an_empty_name_is_refused(store: Store, name: str | bytes) -> None:
    with pytest.raises(ArgumentError, match="must not be empty"):
        store.stream(name)


@pytest.mark.parametrize(
    "name", [None, 5, 1.5, bytearray(b"x"), ["x"], pytest.param(object(), id="object()")], ids=repr
)
def test_a_name_is_text_or_bytes(store: Store, name: Any) -> None:
    for call in (store.stream, store.exists, store.delete):
        with pytest.raises(ArgumentTypeError, match=f"not {type(name).__name__}"):
            call(name)


def test_what_does_not_belong_to_a_store_is_left_alone_and_not_listed(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"a": 1})
        streams = tmp_path / "store" / "streams"
        for foreign in ("NotOurs", "%zz", "lost+found", "~" + "0" * 64):
            (streams / foreign).mkdir()
        assert store.streams() == [b"x"]
        assert not store.exists("NotOurs")
    with diskstream.open(tmp_path / "store") as store:
        assert store.streams() == [b"x"]
    assert (streams / "NotOurs").is_dir()
