"""A log that is damaged ends where the damage begins: who asks for more is told, and given no part for the whole."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError, EntryID, Stream
from diskstream.backups import BackupError, Wanted, find_backup, make_backup, restore
from diskstream.backups.rewinding import copy_until
from diskstream.commands.dumps import digest, dump_stream
from diskstream.commands.keyspace import Keyspace
from diskstream.copying import copy_stream
from diskstream.engine.names import log_path

ENTRIES, SOUND = 10, 4
BAD = b"the entry whose value is damaged"


def made(store: Path, *, sealed: bool = False) -> Path:
    """A store with a stream whose active log is damaged behind some entries, before others that were durable."""
    with diskstream.open(store) as opened:
        stream = opened.stream("x")
        for number in range(1, ENTRIES + 1):
            stream.add({"v": BAD if number == SOUND + 1 else b"sound"}, (number, 0))
            opened.sync()
            if sealed and number == SOUND:
                stream.seal()
    spoil(log_path(store / "streams" / "x", 2 if sealed else 1))
    return store


def spoil(log: Path) -> None:
    data = log.read_bytes()
    assert data.count(BAD) == 1
    log.write_bytes(data.replace(BAD, BAD.swapcase()))


ALL: list[Callable[[Stream], Any]] = [
    lambda stream: list(stream.range()),
    lambda stream: stream.count(),
    lambda stream: stream.to_arrow(),
    lambda stream: stream.to_arrow("2-0", "6-0"),
    lambda stream: stream.columns(fields=["v"]),
    lambda stream: stream.info_full(0),
    dump_stream,
    digest,
]
BEFORE: list[Callable[[Stream], int]] = [
    lambda stream: len(list(stream.range(end=(SOUND, 0)))),
    lambda stream: stream.count(end=(SOUND, 0)),
    lambda stream: stream.to_arrow(end=(SOUND, 0)).num_rows,
    lambda stream: len(stream.columns(end=(SOUND, 0))),
    lambda stream: len(stream.info_full(SOUND).entries),
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("sealed", [False, True])
def test_who_reads_all_is_told_and_who_reads_what_comes_before_is_not(
    tmp_path: Path, sealed: bool, read_only: bool
) -> None:
    """Columns were those of the entries before it, and nothing was said; so was a DUMP."""
    with diskstream.open(made(tmp_path / "s", sealed=sealed), read_only=read_only) as store:
        stream = store.stream("x")
        for read in ALL:
            with pytest.raises(CorruptionError):
                read(stream)
        assert [read(stream) for read in BEFORE] == [SOUND] * len(BEFORE)


@pytest.mark.parametrize("read_only", [False, True])
def test_nobody_is_told_a_length_or_groups_of_before_the_damage(tmp_path: Path, read_only: bool) -> None:
    """They were given as those of now: `len` and XLEN were short, and an entry that was acknowledged was pending."""
    with diskstream.open(tmp_path / "s") as store:
        group = store.stream("x").group("g")
        store.stream("x").add_many([{"v": "1"}, {"v": "2"}])
        given = group.consumer("c").read(count=2)
        store.sync()
        store.stream("x").add({"v": BAD})
        group.ack(given[0].id)
        store.stream("x").create_group("later")
        store.sync()
    spoil(log_path(tmp_path / "s" / "streams" / "x", 1))
    with diskstream.open(tmp_path / "s", read_only=read_only) as store:
        stream = store.stream("x")
        looks: list[Callable[[], Any]] = [lambda: len(stream), stream.groups]
        for name in ("g", "later"):
            group = stream.group(name, create=False)
            looks += [group.info, group.pending, group.pending_range, group.consumers]
        for look in looks:
            with pytest.raises(CorruptionError):
                look()
        vitals = stream.vitals()
        assert vitals is not None
        assert (vitals.length, vitals.groups, vitals.is_damaged) == (2, 1, True)
    list(diskstream.repair(tmp_path / "s"))
    with diskstream.open(tmp_path / "s", read_only=read_only) as store:
        assert (len(store.stream("x")), len(store.stream("x").groups())) == (2, 2)


@pytest.mark.parametrize("until", [None, (SOUND - 1, 0)])
def test_a_stream_is_restored_up_to_a_moment_before_the_damage(tmp_path: Path, until: tuple[int, int] | None) -> None:
    """How long it is behind that is not asked."""
    with diskstream.open(made(tmp_path / "s"), read_only=True) as store, diskstream.open(tmp_path / "t") as target:
        last = EntryID(*(until or (SOUND, 0)))
        copy_until(store.stream("x"), target.stream("x"), last, lambda _: None)
        assert (len(target.stream("x")), target.stream("x").last_id()) == (last.ms, last)
        assert target.stream("x").info().entries_added == last.ms


def test_a_stream_is_not_moved_or_copied_without_what_a_repair_saves(tmp_path: Path) -> None:
    """MOVE copied what came before the damage, and removed the stream with all that came behind it."""
    with Keyspace(made(tmp_path / "s")) as keyspace:
        for move in (
            lambda: keyspace.move(0, b"x", 1),
            lambda: keyspace.copy(0, b"x", 0, b"y"),
            lambda: copy_stream(keyspace.store(0).stream("x"), keyspace.store(0).stream("z")),
        ):
            with pytest.raises(CorruptionError):
                move()
        assert (keyspace.store(0).streams(), keyspace.store(1).streams()) == ([b"x"], [])
    list(diskstream.repair(tmp_path / "s"))
    with Keyspace(tmp_path / "s") as keyspace:
        assert keyspace.move(0, b"x", 1)
        assert len(keyspace.store(1).stream("x")) == ENTRIES - 1


def test_what_rotted_in_a_backup_is_not_restored_into_a_store_as_if_it_were_all(tmp_path: Path) -> None:
    """It was, without a word: but for `--damaged` an older backup may be sound."""
    with diskstream.open(tmp_path / "s") as store:
        for number in range(1, ENTRIES + 1):
            store.stream("x").add({"v": BAD if number == SOUND + 1 else b"sound"}, (number, 0))
            store.sync()
    make_backup(tmp_path / "s", tmp_path / "backups")
    shutil.rmtree(tmp_path / "s")
    diskstream.open(tmp_path / "s").close()
    spoil(next((tmp_path / "backups").glob("2*/streams/x/00000001.log")))
    with pytest.raises(BackupError, match="SHA-256"):
        restore(find_backup(tmp_path / "backups"), tmp_path / "s", Wanted(streams=(b"x",)))
    with diskstream.open(tmp_path / "s") as store:
        assert store.streams() == []
    restored = restore(find_backup(tmp_path / "backups"), tmp_path / "s", Wanted(streams=(b"x",), damaged=True))
    assert restored.entries == SOUND
