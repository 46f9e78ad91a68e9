"""A stream that another process removes, or makes anew, while it is read: it is as if one had come a moment later."""

import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store, Stream
from diskstream.engine import log, recovery
from diskstream.errors import NoSuchStreamError, StorageError

LOOKS: dict[str, tuple[Callable[[Stream], object], object]] = {
    "range": (lambda stream: list(stream.range()), []),
    "revrange": (lambda stream: list(stream.revrange()), []),
    "last_id": (lambda stream: str(stream.last_id()), "0-0"),
    "length": (len, 0),
    "identity": (lambda stream: stream.identity(), None),
    "trimmed_to": (lambda stream: stream.trimmed_to(), None),
    "added_until": (lambda stream: stream.added_until("9-9"), 0),
}


@pytest.fixture(params=["opened before", "not opened"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1}, id="1-1")
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        if request.param == "opened before":
            assert len(store.stream("s")) == 1
        yield store


def when_listed(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Has something happen once, between a reader's looking for the directory and its looking at what is in it."""
    real, following, left = recovery._list, recovery.next_log, [action]

    def listing(place: Path) -> Any:
        if left:
            left.pop()()
        return real(place)

    def next_log(place: Path, number: int) -> int | None:
        if left:
            left.pop()()
        return following(place, number)

    monkeypatch.setattr(recovery, "_list", listing)
    monkeypatch.setattr(recovery, "next_log", next_log)


def remove(store: Store) -> None:
    assert store.delete("s")


@pytest.mark.parametrize("look", LOOKS)
def test_removed_in_between_it_is_not_there(look: str, reader: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with diskstream.open(reader.path) as other:
        when_listed(monkeypatch, lambda: remove(other))
        act, nothing = LOOKS[look]
        assert act(reader.stream("s")) == nothing


def test_removed_in_between_it_has_no_facts(reader: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with diskstream.open(reader.path) as other:
        when_listed(monkeypatch, lambda: remove(other))
        with pytest.raises(NoSuchStreamError):
            reader.stream("s").info()


def test_made_anew_in_between_the_old_one_is_read_or_the_new_one_and_then_the_new_one(
    reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(reader.path) as other:

        def make_anew() -> None:
            other.delete("s")
            other.stream("s").add({"n": 2}, id="1-1")

        when_listed(monkeypatch, make_anew)
        assert [entry[b"n"] for entry in reader.stream("s").range()] in ([b"1"], [b"2"])
        assert [entry[b"n"] for entry in reader.stream("s").range()] == [b"2"]


def test_each_of_many_that_take_each_others_place_is_seen(reader: Store) -> None:
    # A file system may give the next directory the number of the one that went.
    stream, seen = reader.stream("s"), []
    with diskstream.open(reader.path) as other:
        for n in range(20):
            other.delete("s")
            other.stream("s").add({"n": n}, id="1-1")
            seen += [int(entry[b"n"]) for entry in stream.range()]
    assert seen == list(range(20))


def test_a_file_that_is_missing_is_told_of_where_the_stream_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})

    def missing(place: Path) -> Any:
        raise FileNotFoundError(2, "No such file", str(place / "ctl"))

    monkeypatch.setattr(recovery, "_list", missing)
    with diskstream.open(tmp_path / "store", read_only=True) as store, pytest.raises(StorageError, match="ctl"):
        store.stream("s").last_id()


def open_within(place: Path) -> list[str]:
    """The files that this process has open, of those in a directory."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            targets.append(str(descriptor.readlink()))
    return sorted(target for target in targets if target.startswith(f"{place}/"))


def test_an_opening_that_fails_late_holds_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Any:
        raise StorageError("view", "open", 5, "no")

    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
    monkeypatch.setattr(log, "StreamPending", failing)
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        before = open_within(tmp_path)
        for _ in range(3):
            with pytest.raises(StorageError, match="view"):
                store.stream("s").last_id()
        gc.collect()
        assert open_within(tmp_path) == before
