"""A server's directory as of an earlier moment: keys that are no streams, and times of expiry, are never lost by it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import EntryID
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.cli import main
from diskstream.commands import key_records
from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours

KEYS = "keys/streams/keys"
# Where the last ID of what is known of keys is a moment, this is later than all that a test does then.
LATER_MS = 60_000


def last_change(path: Path) -> EntryID:
    with diskstream.open(path / "keys", read_only=True) as store:
        return store.stream("keys").last_id()


def served(path: Path, *lines: str) -> EntryID:
    """Commands at a server's directory. Returns the ID of the last change of what is known of keys."""
    with Keyspace(path) as keyspace:
        ours = Ours(keyspace)
        for line in lines:
            ours.run(line)
    return last_change(path)


def replies(path: Path, *lines: str) -> list[object]:
    with Keyspace(path) as keyspace:
        ours = Ours(keyspace)
        return [ours.run(line) for line in lines]


def seal(path: Path) -> None:
    with diskstream.open(path) as store:
        for stream in store:
            stream.seal()


def restored(tmp_path: Path, until: EntryID) -> dict[str, str]:
    """How each stream of the store was restored."""
    make_backup(tmp_path / "served", tmp_path / "backups")
    done = restore(find_backup(tmp_path / "backups"), tmp_path / "again", Wanted(until=until))
    assert not list((tmp_path / "again").rglob("*.tmp"))
    return {place: how.way for place, how in done.streams.items()}


def test_what_is_known_of_keys_is_that_of_the_moment(tmp_path: Path) -> None:
    until = served(tmp_path / "served", "SET conf v1", "SADD set a")
    served(tmp_path / "served", "SET conf v2", "DEL set", "RPUSH list a")
    assert restored(tmp_path, until) == {KEYS: "cut"}
    assert replies(tmp_path / "again", "GET conf", "SMEMBERS set", "TYPE list") == [b"v1", [b"a"], b"none"]


def test_a_change_of_several_keys_was_made_or_not(tmp_path: Path) -> None:
    """A key that was renamed had neither name in between: the rows of one frame have an ID each."""
    before = served(tmp_path / "served", "SET old word")
    last = served(tmp_path / "served", "RENAME old new")
    with diskstream.open(tmp_path / "served/keys", read_only=True) as store:
        first = min(entry.id for entry in store.stream("keys") if entry.id > before)
    assert first < last
    assert restored(tmp_path, first) == {KEYS: "cut"}
    assert replies(tmp_path / "again", "GET old", "GET new") == [b"word", None]


def rolled_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets what is known of keys be written anew, in another segment, and what came before be trimmed."""
    monkeypatch.setattr(key_records, "_SPARE", 0)
    with Keyspace(path) as keyspace:
        for number in range(8):
            Ours(keyspace).raw(b"SET", b"other", b"%d" % number * 900_000)
    assert len(list((path / KEYS).glob("00000001*"))) == 0


def nothing_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(path, "SET other 1")


@pytest.mark.parametrize(
    ("change", "no_time"), [(rolled_on, False), (nothing_more, True)], ids=["trimmed", "an ID that is no time"]
)
def test_where_that_moment_is_gone_it_is_that_of_the_backup_and_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
    no_time: bool,
) -> None:
    """All strings, lists, sets and times of expiry were gone, and nothing was said."""
    until = served(tmp_path / "served", "SET conf v1", "SADD set a", "XADD s 1-0 a 1", "XADD s 2-0 a 2")
    served(tmp_path / "served", "PEXPIRE s 100000000")
    change(tmp_path / "served", monkeypatch)
    if no_time:
        until = EntryID(1, 5)
    assert restored(tmp_path, until) == {KEYS: "kept", "streams/s": "cut" if no_time else "whole"}
    conf, members, left, length = replies(tmp_path / "again", "GET conf", "SMEMBERS set", "PTTL s", "XLEN s")
    assert (conf, members, length) == (b"v1", [b"a"], 1 if no_time else 2)
    assert 0 < int(str(left)) <= 100000000
    words = ["restore", str(tmp_path / "backups"), "--to", str(tmp_path / "told"), "--until", str(until)]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0
    assert "1 kept" in said.stdout
    assert f"what is known of keys is that of the backup, not of {until}" in said.stderr


@pytest.mark.parametrize("database", [0, 3])
def test_a_stream_that_was_copied_expires_as_it_would_have(tmp_path: Path, database: int) -> None:
    """A copy is another stream by its UUID, and what is known of a key names the stream that expires: none did."""
    place = tmp_path / "served" / (f"db{database}" if database else "")
    until = served(
        tmp_path / "served",
        f"SELECT {database}",
        *(f"XADD {key} {number}-0 n 1" for number in (1, 2) for key in ("s", "forever", "again")),
        *(f"PEXPIRE {key} 100000000" for key in ("s", "forever", "again")),
        "PERSIST forever",
        "PEXPIRE again 200000000",
        "SET word yes",
    )
    later = [f"XADD {key} {until.ms + LATER_MS}-* n 3" for key in ("s", "forever", "again")]
    served(tmp_path / "served", f"SELECT {database}", *later)
    seal(place)
    served(tmp_path / "served", f"SELECT {database}", *later)
    assert set(restored(tmp_path, until).values()) == {"whole", "copied"}
    asked = [f"SELECT {database}", "PTTL s", "PTTL forever", "PTTL again", "GET word", "XLEN s"]
    _, ends, never, longer, word, length = replies(tmp_path / "again", *asked)
    assert 0 < int(str(ends)) <= 100000000 < int(str(longer)) <= 200000000
    assert (never, word, length) == (-1, b"yes", 2)


def test_a_copied_stream_does_not_take_on_what_another_one_left(tmp_path: Path) -> None:
    """A record may name a stream that was deleted: one of its name that came later never expires by it."""
    until = served(tmp_path / "served", "XADD s 1-0 n 1", "PEXPIRE s 100000000")
    with diskstream.open(tmp_path / "served") as store:  # not through the server: the record stays
        store.delete("s")
        for number in (1, 2, until.ms + LATER_MS):
            store.stream("s").add({"n": number}, f"{number}-0")
        store.stream("s").seal()
        store.stream("s").add({"n": "last"}, f"{until.ms + LATER_MS}-1")
    assert restored(tmp_path, until)["streams/s"] == "copied"
    assert replies(tmp_path / "again", "PTTL s", "XLEN s") == [-1, 2]
