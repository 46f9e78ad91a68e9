"""`info`: every field of XINFO STREAM that makes sense here, and what is on disk. Streams without entries."""

import dataclasses
from os import DirEntry
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, NoSuchStreamError, Store
from diskstream.engine import file_sizes, names
from diskstream.engine.file_sizes import FileSizes
from diskstream.engine.seal import reap
from tests.streams.layers import kinds, layered, log_of, small_store


def test_of_a_new_entry(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"a": 1}, "5-3")
    info = stream.info()
    entry = stream.get("5-3")
    assert dataclasses.asdict(dataclasses.replace(info, size_bytes=0, durable=False)) == {
        "name": b"x",
        "length": 1,
        "last_generated_id": EntryID(5, 3),
        "max_deleted_entry_id": EntryID(0, 0),
        "entries_added": 1,
        "recorded_first_entry_id": EntryID(5, 3),
        "groups": 0,
        "first_entry": entry,
        "last_entry": entry,
        "segments": 1,
        "sealed_segments": 0,
        "size_bytes": 0,
        "cold_segments": 0,
        "cold_bytes": 0,
        "durable": False,
        "idmp_duration_s": 100,
        "idmp_max_size": 100,
        "producers_tracked": 0,
        "messages_tracked": 0,
        "messages_added": 0,
        "messages_duplicate": 0,
        "retention": None,
        "retention_error": None,
    }


def test_it_cannot_be_changed(store: Store) -> None:
    store.stream("x").add({"a": 1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        store.stream("x").info().length = 5  # type: ignore[misc]  # refused: it is frozen


def test_its_numbers_follow_what_is_done(small: Store) -> None:
    made = layered(small)
    info = made.stream.info()
    assert info.length == len(made.stream) == len(made.live)
    assert info.entries_added == made.added
    assert (info.first_entry and info.first_entry.id, info.last_entry and info.last_entry.id) == (
        made.live[0][0],
        made.live[-1][0],
    )
    assert info.recorded_first_entry_id == made.live[0][0]
    assert info.segments == len(kinds(small))
    assert info.sealed_segments == kinds(small).count("sealed") + kinds(small).count("compacted")
    files = [path for path in log_of(small).directory.iterdir() if path.suffix in (".seg", ".log")]
    assert info.size_bytes == sum(path.stat().st_size for path in files)


def test_the_summary_says_the_same_without_a_look_at_the_files(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = layered(small)
    info = dataclasses.asdict(made.stream.info())
    monkeypatch.setattr(FileSizes, "now", lambda self: pytest.fail(f"looked at the files of {self}"))
    summary = dataclasses.asdict(made.stream.summary())
    assert {name: info[name] for name in summary} == summary
    assert set(info) - set(summary) >= {"segments", "size_bytes", "durable"}
    with pytest.raises(NoSuchStreamError):
        small.stream("none").summary()


def bytes_on_disk(store: Store) -> int:
    files = [path for path in log_of(store).directory.iterdir() if path.suffix in (".seg", ".log", ".cold")]
    return sum(path.stat().st_size for path in files)


def test_the_size_of_a_sealed_file_is_asked_for_once(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands that never change it took far longer than the rest."""
    made = layered(small)
    asked: list[str] = []
    ask = file_sizes._size

    def noted(entry: DirEntry[str]) -> int:
        asked.append(entry.name)
        return ask(entry)

    monkeypatch.setattr(file_sizes, "_size", noted)
    made.stream.info()
    assert sorted(asked) == sorted(
        path.name for path in log_of(small).directory.iterdir() if names.parse_file(path.name)
    )
    asked.clear()
    made.stream.info()
    assert asked
    assert {name.rpartition(".")[2] for name in asked} == {"log"}


def test_the_size_follows_what_is_done_with_the_files(small: Store) -> None:
    made = layered(small)

    def check() -> None:
        info = made.stream.info()
        assert info.size_bytes == bytes_on_disk(small)
        assert info.sealed_segments == kinds(small).count("sealed") + kinds(small).count("compacted")

    for change in (
        lambda: made.add(500),
        made.stream.seal,
        lambda: made.add(300),
        lambda: made.trim_to(700),
        made.stream.compact,
        lambda: made.trim_to(0),
    ):
        check()
        change()
        reap(log_of(small))  # what is dropped goes in the background
        check()


def test_the_size_of_a_sealed_file_beside_its_log_is_asked_for_again(small: Store) -> None:
    """It may be made anew from the log."""
    made = layered(small)
    log = log_of(small)
    rolled = next(view.number for view in log.segments.views() if log.segments.is_rows(view))
    sealed = names.segment_path(log.directory, rolled, 0)
    for size in (10, 20):
        sealed.write_bytes(bytes(size))
        assert made.stream.info().size_bytes == bytes_on_disk(small)
    sealed.unlink()
    assert made.stream.info().size_bytes == bytes_on_disk(small)


def test_the_greatest_deleted_id_does_not_go_back(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 6):
        stream.add({"n": number}, (number, 0))
    for deleted, greatest in [("2-0", "2-0"), ("4-0", "4-0"), ("3-0", "4-0"), ("99-0", "4-0"), ("5-0", "5-0")]:
        stream.delete(deleted)
        assert str(stream.info().max_deleted_entry_id) == greatest


def test_the_first_id_is_that_of_the_first_live_entry(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 6):
        stream.add({"n": number}, (number, 0))
    stream.delete("1-0")
    assert str(stream.info().recorded_first_entry_id) == "2-0"
    stream.trim(maxlen=3)
    assert str(stream.info().recorded_first_entry_id) == "3-0"
    stream.delete("3-0", "4-0", "5-0")
    assert str(stream.info().recorded_first_entry_id) == "0-0"


def test_what_was_added_is_durable_after_a_sync(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("x")
        stream.add({"a": 1})
        assert not stream.info().durable
        store.sync()
        assert stream.info().durable
    with diskstream.open(tmp_path / "always", fsync="always") as store:
        store.stream("x").add({"a": 1})
        assert store.stream("x").info().durable


def test_of_a_stream_that_does_not_exist_there_is_none(store: Store) -> None:
    with pytest.raises(NoSuchStreamError, match=r"^no such key") as caught:
        store.stream("x").info()
    assert isinstance(caught.value, LookupError)
    assert caught.value.name == b"x"
    assert len(store.stream("x")) == 0
    assert not store.stream("x").exists()


def test_a_stream_without_entries_stays_and_remembers(tmp_path: Path) -> None:
    """Only `delete` and `rename` of the store end a stream; a trim or delete of all its entries does not."""
    with small_store(tmp_path / "store") as store:
        for name in ("trimmed", "deleted"):
            stream = store.stream(name)
            for number in range(1, 200):
                stream.add({"n": number, "pad": "." * 90}, (number, 0))
        assert store.stream("trimmed").trim(maxlen=0) == 199
        assert store.stream("deleted").delete(*((number, 0) for number in range(1, 200))) == 199
    for _ in range(2):
        with small_store(tmp_path / "store") as store:
            assert store.streams() == [b"deleted", b"trimmed"]
            for name, greatest in (("trimmed", "0-0"), ("deleted", "199-0")):
                stream = store.stream(name)
                info = stream.info()
                assert stream.exists()
                assert bool(stream)
                assert len(stream) == info.length == 0
                assert (str(info.last_generated_id), info.entries_added) == ("199-0", 199)
                assert str(info.max_deleted_entry_id) == greatest
            store.seal()
            store.compact()
            assert store.verify().ok


def test_an_empty_stream_goes_on_behind_its_last_id(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"n": 1}, (2**63, 5), maxlen=0)
    with diskstream.open(tmp_path / "store") as store:
        added = store.stream("x").add({"n": 2})
        assert added is not None
        assert added > EntryID(2**63, 5)
