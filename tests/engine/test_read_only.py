"""Opened for reading only, a store is read as it is: not a byte of it changes, and nothing can be written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError, ReadOnlyError, Store
from diskstream.engine import recovery
from tests.engine.children import child
from tests.engine.holding import open_damaged
from tests.engine.mounts import unwritable
from tests.engine.sample import build, files_of, rows
from tests.engine.users import leave, use

State = dict[str, tuple[int, int, bytes]]


def state_of(root: Path) -> State:
    """Every file with its time of change, and every directory."""
    found = {str(path): path.stat() for path in [root, *root.rglob("*")]}
    return {
        path: (stat.st_mtime_ns, stat.st_ino, Path(path).read_bytes() if Path(path).is_file() else b"")
        for path, stat in found.items()
    }


CHANGES: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.stream("x").add({"n": "1"}),
    "add to a new stream": lambda store: store.stream("new").add({"n": "1"}),
    "add_many": lambda store: store.stream("x").add_many([{"n": "1"}]),
    "add, trimming": lambda store: store.stream("x").add({"n": "1"}, maxlen=3),
    "delete": lambda store: store.stream("x").delete("4-7"),
    "trim": lambda store: store.stream("x").trim(maxlen=1),
    "trim to nothing": lambda store: store.stream("x").trim(maxlen=0),
    "set_id": lambda store: store.stream("x").set_id("900-0"),
    "seal": lambda store: store.seal(),
    "seal a stream": lambda store: store.stream("x").seal(),
    "compact": lambda store: store.compact(),
    "compact a stream": lambda store: store.stream("x").compact(),
    "delete the stream": lambda store: store.delete("x"),
    "delete no stream": lambda store: store.delete("none"),
    "rename": lambda store: store.rename("x", "y"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_whatever_would_change_a_store_is_refused(tmp_path: Path, change: Callable[[Store], object]) -> None:
    expected = build(tmp_path / "s")["x"].live
    before = state_of(tmp_path)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        with pytest.raises(ReadOnlyError, match="reading only") as caught:
            change(store)
        assert str(tmp_path / "s") in str(caught.value)
        assert rows(store.stream("x").range()) == expected
    assert state_of(tmp_path) == before


def test_everything_can_be_read_and_nothing_is_touched(tmp_path: Path) -> None:
    sample = build(tmp_path / "s")["x"]
    before = state_of(tmp_path)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        stream = store.stream("x")
        assert rows(stream.range()) == sample.live
        assert rows(stream.revrange()) == sample.live[::-1]
        assert stream.info().length == len(stream) == len(sample.live)
        assert rows(stream.read("0-0")) == sample.live
        assert stream.read("$", block=0.01) == []
        assert store.streams() == [b"x"]
        assert list(store.stream("none")) == []
        assert store.verify().ok
        store.sync()
    assert state_of(tmp_path) == before


def test_a_log_that_nobody_closed_is_read_and_left_unclosed(tmp_path: Path) -> None:
    with child(leave, tmp_path / "s", 5) as user:
        assert user.hear() == "left"
    before = state_of(tmp_path)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert len(store.stream("x")) == 5
    assert state_of(tmp_path) == before


def test_a_directory_that_cannot_be_written_to_is_read_all_the_same(tmp_path: Path) -> None:
    expected = build(tmp_path / "s")["x"].live
    before = files_of(tmp_path / "s")
    with unwritable(tmp_path / "s", tmp_path / "view") as view:
        with pytest.raises(ReadOnlyError, match="reading only"):
            diskstream.open(view)
        with diskstream.open(view, read_only=True) as store:
            assert rows(store.stream("x").range()) == expected
            assert store.verify().ok
            with pytest.raises(ReadOnlyError):
                store.stream("x").add({"n": "1"})
        with pytest.raises(ReadOnlyError):
            diskstream.open(view / "below")
    assert files_of(tmp_path / "s") == before


def test_a_store_without_its_control_pages_is_read_as_a_backup_is(tmp_path: Path) -> None:
    expected = build(tmp_path / "s")["x"].live
    for page in list((tmp_path / "s").rglob("ctl")):
        page.unlink()
    before = state_of(tmp_path)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert rows(store.stream("x").range()) == expected
    assert state_of(tmp_path) == before


# --- beside a writer --------------------------------------------------------------------------------------------------


def numbers(store: Store) -> list[str]:
    return [entry["n"].decode() for entry in store.stream("x").range()]


def test_what_a_writer_in_another_process_does_is_seen(tmp_path: Path) -> None:
    with child(use, tmp_path / "s", {}) as writer:
        assert writer.hear() == "open"
        writer.ask("add 0")
        with diskstream.open(tmp_path / "s", read_only=True) as store:
            assert numbers(store) == ["0"]
            for number in range(1, 8):
                writer.ask(f"add {number}")
                assert numbers(store) == [str(seen) for seen in range(number + 1)]
                assert len(store.stream("x")) == number + 1
            assert [entry["n"] for entry in store.stream("x").read("0-0", count=2)] == [b"0", b"1"]


@pytest.mark.parametrize("rolls", [1, 2, 3])
def test_a_reader_follows_a_writer_that_has_rolled_and_sealed_meanwhile(tmp_path: Path, rolls: int) -> None:
    """However often: what it had open is gone by then."""
    with child(use, tmp_path / "s", {}) as writer:
        assert writer.hear() == "open"
        writer.ask("add 0")
        with diskstream.open(tmp_path / "s", read_only=True) as store:
            assert numbers(store) == ["0"]
            for number in range(1, rolls + 1):
                writer.ask(f"add {number}")
                assert writer.ask("seal") == "1"
            writer.ask("add last")
            expected = [*(str(number) for number in range(rolls + 1)), "last"]
            assert numbers(store) == expected
            assert len(store.stream("x")) == len(expected)
            assert [entry["n"].decode() for entry in store.stream("x").revrange()] == expected[::-1]
            writer.ask("compact")
            assert numbers(store) == expected


def test_a_blocked_reader_sees_what_comes(tmp_path: Path) -> None:
    with child(use, tmp_path / "s", {}) as writer:
        assert writer.hear() == "open"
        first = writer.ask("add 0")
        with diskstream.open(tmp_path / "s", read_only=True) as store:
            writer.tell("add 1")
            (entry,) = store.stream("x").read(first, block=30)
            assert entry["n"] == b"1"
            assert writer.hear() == str(entry.id)


def test_streams_that_come_and_go_beside_a_reader(tmp_path: Path) -> None:
    with child(use, tmp_path / "s", {}) as writer:
        assert writer.hear() == "open"
        writer.ask("add 0")
        with diskstream.open(tmp_path / "s", read_only=True) as store:
            assert numbers(store) == ["0"]
            assert writer.ask("delete x") == "True"
            assert numbers(store) == []
            assert store.streams() == []
            writer.ask("add again")
            assert numbers(store) == ["again"]


def test_no_descriptor_is_left_by_readers_of_a_damaged_store(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to count descriptors")
    build(tmp_path / "s")
    (tmp_path / "s" / "streams" / "x" / "00000005.log").write_bytes(b"")
    with child(open_damaged, tmp_path / "s") as user:
        before, after = json.loads(user.hear())
        assert after == before
        assert user.hear() == "4"


def test_a_directory_that_changes_while_it_is_listed_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may show that a segment was sealed, and not yet the log that was begun before that."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add_many([{"n": n} for n in range(10)])
        store.seal()
        store.stream("x").add({"n": 10})
    whole, calls = recovery._list, []

    def half(directory: Path) -> list[tuple[str, tuple[str, int, int] | None]]:
        calls.append(directory)
        found = whole(directory)
        return [each for each in found if not each[0].endswith(".log")] if len(calls) == 1 else found

    monkeypatch.setattr(recovery, "_list", half)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert [int(entry["n"]) for entry in store.stream("x")] == list(range(11))


def test_a_log_that_is_gone_for_good_is_missed_all_the_same(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": 1})
        store.seal()
    [log] = (tmp_path / "s" / "streams" / "x").glob("*.log")
    log.unlink()
    with (
        diskstream.open(tmp_path / "s", read_only=True) as store,
        pytest.raises(CorruptionError, match="the active log file"),
    ):
        list(store.stream("x"))


def test_who_follows_finds_the_next_log_though_a_listing_missed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(tmp_path / "s") as store, diskstream.open(tmp_path / "s", read_only=True) as reader:
        store.stream("x").add({"n": 0})
        assert len(reader.stream("x")) == 1
        store.seal()
        store.stream("x").add({"n": 1})
        whole, calls = recovery._list, []

        def half(directory: Path) -> list[tuple[str, tuple[str, int, int] | None]]:
            calls.append(directory)
            found = whole(directory)
            return [each for each in found if not each[0].endswith(".log")] if len(calls) == 1 else found

        monkeypatch.setattr(recovery, "_list", half)
        assert len(reader.stream("x")) == 2


def test_a_look_of_a_reader_maps_a_log_anew_only_where_it_has_grown(tmp_path: Path) -> None:
    """Each mapped it anew and searched all that follows the last frame: 1.4 ms where 16 MB were ready for entries."""

    def mapped() -> list[str]:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        log = str(tmp_path / "s" / "streams" / "x" / "00000001.log")  # and not of a reader that is not collected yet
        return [line.split()[0] for line in lines if line.endswith(log) and " r--s " in line]

    with diskstream.open(tmp_path / "s") as store, diskstream.open(tmp_path / "s", read_only=True) as reader:
        stream, looks = store.stream("x"), reader.stream("x")
        stream.add({"n": 0})
        assert len(looks) == 1
        before = mapped()
        for number in range(1, 4):
            stream.add({"n": number})
            assert [entry["n"] for entry in looks.range("-", "+")][-1] == str(number).encode()
            assert mapped() == before
        stream.add_many([{"n": "x" * 1000} for _ in range(100)])
        assert len(looks) == 104
        assert len(mapped()) == len(before) == 1
        assert mapped() != before


def test_a_stream_that_is_removed_while_it_is_opened_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tail that followed it ended with "No such file or directory"."""
    build(tmp_path / "s")
    whole = recovery.look

    def look(directory: Path, *given: Any) -> Any:
        shutil.rmtree(directory)
        return whole(directory, *given)

    monkeypatch.setattr(recovery, "look", look)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert not list(store.stream("x").range())
        assert not store.exists("x")
