"""SCAN: each key that is there all along comes once, without anything being remembered; and its patterns."""

import os

import pytest

import diskstream
from diskstream.commands.globs import glob
from diskstream.commands.keyspace import Keyspace
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
