"""SCAN: each key that is there all along comes once, without anything being remembered; and its patterns."""

import os
import zlib
from collections.abc import Callable

import pytest

import diskstream
from diskstream import Store
from diskstream.commands.globs import glob
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.listing import ordered
from diskstream.copying import temporary_name
from diskstream.engine import replacing
from tests.commands.conftest import Clock
from tests.commands.world import Ours


def scanned(ours: Ours, options: str = "", *, each: str = "") -> list[bytes]:
    found: list[bytes] = []
    cursor = b"0"
    while True:
        cursor, keys = ours.run(f"SCAN {cursor.decode()} {options}")
        found += keys
        if cursor == b"0":
            return found
        if each:
            ours.run(each.replace("@", str(len(found))))


def test_each_key_comes_once(ours: Ours, keyspace: Keyspace) -> None:
    for number in range(60):
        ours.run(f"SET key{number} 1")
    for number in range(5):
        keyspace.stream(0, b"stream%d" % number).add({"f": "1"})
    for options in ("", "COUNT 1", "COUNT 7", "COUNT 1000"):
        found = scanned(ours, options)
        assert sorted(found) == keyspace.names(0), options
    assert sorted(scanned(ours, "TYPE stream COUNT 3")) == [b"stream%d" % number for number in range(5)]
    assert sorted(scanned(ours, "MATCH *m* TYPE string")) == []
    assert sorted(scanned(ours, "MATCH key1? COUNT 2")) == [b"key1%d" % number for number in range(10)]


def test_keys_that_come_and_go_do_not_disturb_the_others(ours: Ours, keyspace: Keyspace) -> None:
    for number in range(50):
        ours.run(f"SET kept{number} 1")
        ours.run(f"SET gone{number} 1")
    found = scanned(ours, "COUNT 4", each="DEL gone@")
    kept = [key for key in found if key.startswith(b"kept")]
    assert sorted(kept) == sorted(b"kept%d" % number for number in range(50))
    assert len(set(found)) == len(found)


def test_keys_of_one_checksum_come_together(ours: Ours) -> None:
    # CRC-32 of both is 0x4ddb0c25.
    ours.run("SET plumless 1")
    ours.run("SET buckeroo 1")
    ours.run("SET other 1")
    assert sorted(scanned(ours, "COUNT 1")) == [b"buckeroo", b"other", b"plumless"]


def test_streams_that_others_make_and_remove_are_seen_at_once(ours: Ours, keyspace: Keyspace) -> None:
    with diskstream.open(keyspace.path) as store:
        for number in range(30):
            store.stream(f"s{number}").add({"f": "1"})
            assert ours.run("DBSIZE") == number + 1
        os.utime(keyspace.path / "streams", (1, 1))  # long ago, so that the listing is kept
        assert ours.run("DBSIZE") == 30
        assert keyspace.names(0) is keyspace.names(0)
        store.delete("s7")
        assert ours.run("DBSIZE") == 29
        assert b"s7" not in scanned(ours)


LONG = b"L" * 300
CHANGES: dict[str, Callable[[Store, Store], object]] = {
    "nothing": lambda _, __: None,
    "made": lambda ours, _: ours.stream("m").add({"f": "1"}),
    "made by another": lambda _, other: other.stream(LONG).add({"f": "1"}),
    "removed": lambda ours, _: ours.delete("s1"),
    "removed by another": lambda _, other: other.delete("s2"),
    "made anew": lambda _, other: (other.delete("s3"), other.stream("s3").add({"f": "1"})),
    "renamed": lambda _, other: other.rename("s4", "S4"),
    "renamed over another": lambda _, other: other.rename(LONG, "s5"),
    "renamed to a long name": lambda _, other: other.rename("s5", LONG),
    "made for the time being": lambda _, other: other.stream(temporary_name()).add({"f": "1"}),
    "put aside": lambda ours, _: replacing.put_aside(ours._streams, b"s6", ours._files),
    "given back": lambda ours, _: replacing.give_back(ours._streams, b"s6", ours._files),
    "not a stream": lambda ours, _: (ours.path / "streams" / "file").write_bytes(b""),
    "all removed": lambda ours, other: [other.delete(name) for name in other.streams()],
}


def test_what_is_listed_again_is_what_is_there_whoever_has_changed_it(ours: Ours, keyspace: Keyspace) -> None:
    store = keyspace.store(0)
    with diskstream.open(keyspace.path) as other:
        for number in range(9):
            other.stream(f"s{number}").add({"f": "1"})
        for change, make in CHANGES.items():
            make(store, other)
            found = keyspace.names(0)
            assert found == store.streams(), change
            assert keyspace.order(0) == ordered(found), change
            assert sorted(scanned(ours)) == found, change


def test_beside_a_key_of_another_type_streams_are_sorted_once(
    ours: Ours, keyspace: Keyspace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page of a walk sorted all keys anew: beside twenty thousand streams it held a server up for a minute."""
    for number in range(30):
        keyspace.stream(0, b"stream%d" % number).add({"f": "1"})
    ours.run("SET other 1")
    ours.run("SET ended 1 PX 100")
    placed = list[bytes]()
    checksum = zlib.crc32

    def noted(name: bytes) -> int:
        placed.append(name)
        return checksum(name)

    monkeypatch.setattr(zlib, "crc32", noted)
    assert len(scanned(ours, "COUNT 2")) == 32
    assert len(placed) <= 2 * 32
    clock.now += 100
    ours.run("DEL stream7")
    streams = {b"stream%d" % number for number in range(30)} - {b"stream7"}
    assert sorted(scanned(ours, "COUNT 2")) == keyspace.names(0) == sorted({*streams, b"other"})


def test_behind_a_new_key_only_that_is_looked_at(keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """All names were made anew of those of directories, sorted, and given their checksums: 40 ms with 20,000 keys."""
    for number in range(50):
        keyspace.stream(0, b"s%d" % number).add({"f": "1"})
    held = keyspace.order(0)
    before = list(held)
    decoded: list[str] = []

    def decode(folder: str) -> bytes:
        decoded.append(folder)
        return folder.encode()

    monkeypatch.setattr("diskstream.engine.names.decode_plain", decode)
    keyspace.stream(0, b"new").add({"f": "1"})
    names = keyspace.names(0)
    assert decoded == ["new"]
    keyspace.stream(0, b"newer").add({"f": "1"})
    assert keyspace.names(0) == sorted([*names, b"newer"])
    assert decoded == ["new", "newer"]
    assert len(keyspace.order(0)) == len(before) + 2
    assert held == before  # who holds a list is not to see it change


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"h?llo", [b"hello", b"h\nllo"], [b"hllo", b"heello"]),
        (b"h*llo", [b"hllo", b"heeeello"], [b"hell"]),
        (b"h[ae]llo", [b"hallo", b"hello"], [b"hillo"]),
        (b"h[^e]llo", [b"hallo"], [b"hello"]),
        (b"h[a-b]llo", [b"hallo", b"hbllo"], [b"hcllo"]),
        (b"h[b-a]llo", [b"hallo", b"hbllo"], [b"hcllo"]),
        (b"h\\*llo", [b"h*llo"], [b"hello"]),
        (b"a[\\]]b", [b"a]b"], [b"a\\b"]),
        (b"a[", [], [b"a", b"a["]),
        (b"[]", [], [b"", b"]"]),
        (b"a.b(", [b"a.b("], [b"axb("]),
        (b"**a**", [b"a", b"xax"], [b"b"]),
        (b"\\", [b"\\"], [b""]),
        (b"", [b""], [b"a"]),
    ],
)
def test_patterns(pattern: bytes, yes: list[bytes], no: list[bytes]) -> None:
    compiled = glob(pattern)
    assert all(compiled.fullmatch(name) for name in yes)
    assert not any(compiled.fullmatch(name) for name in no)
