"""A store whose directory somebody removes under its processes: they are told, and take no more."""

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

import diskstream
from diskstream import CorruptionError, PoisonedError, StorageError, Store, Stream
from diskstream.engine.log import StreamLog
from tests.engine.stand_ins import Watched, failure


@pytest.fixture
def removed(tmp_path: Path, no_keepers: None) -> Iterator[Store]:
    """A store whose directory is gone, which no keeper has noticed."""
    store = diskstream.open(tmp_path / "store")
    store.stream("a").add({"n": "1"})
    shutil.rmtree(tmp_path / "store")
    yield store
    with contextlib.suppress(StorageError):  # what was added is gone, unless the stream was being moved already
        store.close()


def keeps_house(store: Store) -> None:
    """What the background does once a second."""
    keeper = store._keeper
    assert keeper is not None
    keeper._each(keeper._attend)


def test_a_stream_without_files_takes_no_more(removed: Store) -> None:
    keeps_house(removed)
    with pytest.raises(PoisonedError, match="its files were removed while it was open"):
        removed.stream("a").add({"n": "2"})


@pytest.mark.parametrize("noticed", [False, True], ids=["unnoticed", "noticed"])
def test_what_went_with_its_files_is_not_said_to_be_durable(removed: Store, noticed: bool) -> None:
    """A flush succeeds, of files that nobody finds again: `sync` returned, and so did `wait_durable`."""
    stream = removed.stream("a")
    if noticed:
        keeps_house(removed)
    with pytest.raises(PoisonedError, match="its files were removed while it was open"):
        stream.wait_durable(stream.last_id())
    with pytest.raises(PoisonedError, match="its files were removed while it was open"):
        removed.sync()


def test_who_closes_such_a_store_is_told(removed: Store) -> None:
    """Its flush succeeded, and it said nothing, unless the background had noticed a moment before."""
    with pytest.raises(PoisonedError, match="its files were removed while it was open"):
        removed.close()
    assert removed.closed


def test_who_only_looked_on_closes_it_as_any_other(tmp_path: Path, no_keepers: None) -> None:
    with diskstream.open(tmp_path / "store") as before:
        before.stream("x").add({"n": 1})
    with diskstream.open(tmp_path / "store") as store:
        assert len(store.stream("x")) == 1
        shutil.rmtree(tmp_path / "store")
    assert store.closed


def test_a_stream_without_its_control_page_takes_no_more(tmp_path: Path) -> None:
    # Another process would make another page, with other locks, and both would write.
    store = diskstream.open(tmp_path / "store")
    store.stream("a").add({"n": "1"})
    (tmp_path / "store" / "streams" / "a" / "ctl").unlink()
    keeps_house(store)
    with pytest.raises(PoisonedError, match="removed"):
        store.stream("a").add({"n": "2"})
    with pytest.raises(PoisonedError):
        store.close()
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a").range()] == [b"1"]
        again.stream("a").add({"n": "2"})


def test_a_stream_that_is_deleted_or_renamed_is_no_such_case(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store, diskstream.open(tmp_path / "store") as other:
        for name in ("a", "b"):
            store.stream(name).add({"n": "1"})
            other.stream(name).add({"n": "2"})
        other.delete("a")
        other.rename("b", "c")
        keeps_house(store)
        assert store._keeper is not None
        assert store._keeper.last_error is None
        store.stream("a").add({"n": "3"})
        assert len(store.stream("a")) == 1
        assert len(store.stream("c")) == 2


def test_a_store_that_was_moved_goes_on(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": "1"})
        (tmp_path / "store").rename(tmp_path / "moved")
        keeps_house(store)
        store.stream("a").add({"n": "2"})
        (tmp_path / "moved").rename(tmp_path / "store")
    with diskstream.open(tmp_path / "store") as again:
        assert len(again.stream("a")) == 2


@pytest.mark.parametrize(
    "use",
    [
        Store.streams,
        Store.seal,
        Store.compact,
        Store.verify,
        lambda store: store.lease(["a"]),
        lambda store: store.delete("a"),
        lambda store: store.rename("a", "b"),
        lambda store: store.stream("new").add({"n": "1"}),
    ],
)
def test_work_on_what_is_gone_is_an_error_of_ours(removed: Store, use: Callable[[Store], object]) -> None:
    with pytest.raises(StorageError, match="removed or moved while it was open"):
        use(removed)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        len,
        lambda stream: list(stream.range()),
        lambda stream: stream.get("1-1"),
        lambda stream: stream.read("0"),
        lambda stream: stream.groups(),
        lambda stream: stream.info(),
    ],
    ids=["len", "range", "get", "read", "groups", "info"],
)
def test_nothing_is_said_of_a_stream_whose_store_is_gone(
    tmp_path: Path, no_keepers: None, use: Callable[[Stream], object], read_only: bool
) -> None:
    """One that had not been opened before was said to be empty."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": "1"})
    with diskstream.open(tmp_path / "store", read_only=read_only) as store:
        shutil.rmtree(tmp_path / "store")
        with pytest.raises(StorageError, match="removed or moved while it was open"):
            use(store.stream("a"))


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.delete("a"),
        lambda store: store.rename("a", "b"),
        lambda store: store.rename("other", "a"),
    ],
    ids=["removed", "renamed", "replaced"],
)
def test_so_is_that_on_one_stream_alone_and_another_of_its_name_can_be_made(
    tmp_path: Path, no_keepers: None, use: Callable[[Store], object]
) -> None:
    """It was the system's error, with two paths and without a word on what to do."""
    with diskstream.open(tmp_path / "store") as store:
        for name in ("a", "other"):
            store.stream(name).add({"n": "1"})
        shutil.rmtree(tmp_path / "store" / "streams" / "a")
        with pytest.raises(StorageError, match="a: it was removed or moved while it was open"):
            use(store)
        store.stream("a").add({"n": "2"})
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a").range()] == [b"2"]
        assert len(again.stream("other")) == 1


@pytest.fixture
def replaced(tmp_path: Path, no_keepers: None) -> Iterator[Store]:
    """An open store that was moved away; another one with a stream of the same name is where it was."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": "1"})
        (tmp_path / "store").rename(tmp_path / "moved")
        with diskstream.open(tmp_path / "store") as another:
            another.stream("a").add({"n": "2"})
        yield store


def test_another_store_that_took_the_place_is_not_said_to_be_damaged(replaced: Store) -> None:
    """Its streams were told as others' that a repair would put aside."""
    with pytest.raises(StorageError, match="removed or moved while it was open"):
        replaced.verify()


def test_nor_does_it_get_a_lease_of_what_it_does_not_have(replaced: Store) -> None:
    with pytest.raises(StorageError, match="removed or moved while it was open"):
        replaced.lease(["a"])
    assert not (replaced.path / "leases").exists()


# --- who has not seen yet that others went on in a further segment ----------------------------------------------------


@pytest.fixture
def behind(tmp_path: Path, no_keepers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An open store that has seen one segment of a stream that has two by now."""
    enter, tries = StreamLog.enter, iter(range(100))

    def counted(log: StreamLog, number: int) -> None:
        assert next(tries, None) is not None, "it looks for a file that will never come"
        enter(log, number)

    with diskstream.open(tmp_path / "store") as others, diskstream.open(tmp_path / "store") as store:
        others.stream("a").add({"n": "1"})
        assert len(store.stream("a")) == 1
        others.stream("a").seal()
        others.stream("a").add({"n": "2"})
        others.close()
        monkeypatch.setattr(StreamLog, "enter", counted)
        yield store


def is_removed(store: Path) -> None:
    shutil.rmtree(store)


def is_moved(store: Path) -> None:
    store.rename(store.with_name("moved"))


def is_replaced(store: Path) -> None:
    is_moved(store)
    with diskstream.open(store) as another:
        another.stream("a").add({"n": "3"})
        another.stream("a").seal()
        another.stream("a").add({"n": "4"})


@pytest.mark.parametrize("went", [is_removed, is_moved, is_replaced])
@pytest.mark.parametrize("use", [lambda a: list(a.range()), lambda a: a.add({"n": "5"}), len])
def test_who_is_to_go_on_in_files_that_went_is_told(
    behind: Store, went: Callable[[Path], None], use: Callable[[Stream], object]
) -> None:
    """It looked for the next segment for ever, with all of a core; another store's was taken for a damaged one."""
    went(behind.path)
    with pytest.raises(StorageError, match="removed or moved while it was open"):
        use(behind.stream("a"))


@pytest.mark.parametrize("went", [is_removed, is_moved, is_replaced])
def test_who_has_nothing_to_lose_there_closes_it_as_any_other(behind: Store, went: Callable[[Path], None]) -> None:
    log = behind._log(b"a", create=False)
    assert log is not None
    log.marked_lsn = 0  # as if what it has seen had come from others, who did not close the stream
    went(behind.path)
    behind.close()
    assert behind.closed


def test_a_next_segment_that_alone_was_removed_is_missed(behind: Store) -> None:
    (behind.path / "streams" / "a" / "00000002.log").unlink()
    with pytest.raises(CorruptionError, match=r"00000002\.log: next segment .* found none"):
        list(behind.stream("a").range())


def removed_log(path: Path) -> Path:
    """The active log of the stream `a`, which somebody removes by hand."""
    active = max((path / "streams" / "a").glob("*.log"))
    active.unlink()
    return active


@pytest.mark.parametrize("seals", ["background", "manual"])
def test_an_active_log_that_is_removed_is_put_back_out_of_the_open_file(
    tmp_path: Path, seals: Literal["background", "manual"], no_keepers: None
) -> None:
    """As by who makes room, and takes it for a log of something that happened. It was lost with the next closing."""
    with diskstream.open(tmp_path / "store", seal=seals) as store:
        stream = store.stream("a")
        stream.add_many([{"n": n} for n in range(5)])
        (first,) = stream.group("g", start="0").consumer("c").read(count=1)
        active = removed_log(store.path)
        stream.add({"n": 5})
        keeps_house(store)
        stream.add({"n": 6})
        assert active.exists() == (seals == "manual")
        assert diskstream.verify(store.path).ok
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a")] == [b"%d" % n for n in range(7)]
        assert [pending.id for pending in again.stream("a").group("g").pending_range()] == [first.id]


def test_so_is_one_in_which_only_groups_changed(tmp_path: Path, no_keepers: None) -> None:
    with diskstream.open(tmp_path / "store") as store:
        stream = store.stream("a")
        entry = stream.add({"n": 1})
        stream.seal()
        stream.group("g", start="0").consumer("c").read()
        removed_log(store.path)
        keeps_house(store)
        assert diskstream.verify(store.path).ok
    with diskstream.open(tmp_path / "store") as again:
        assert [pending.id for pending in again.stream("a").group("g").pending_range()] == [entry]


def test_one_that_is_full_before_anybody_looks_is_put_back_with_the_roll(tmp_path: Path, no_keepers: None) -> None:
    """The file of the next segment hides that it was ever active: it was missing as a sealed one is."""
    with diskstream.open(tmp_path / "store", segment_bytes=8192) as store:
        stream = store.stream("a")
        stream.add({"n": 0})
        removed_log(store.path)
        stream.add_many([{"n": n, "pad": "." * 200} for n in range(1, 100)])
        stream.add({"n": 100})
        assert stream.info().segments > 1
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a")] == [b"%d" % n for n in range(101)]


def test_so_is_that_of_a_store_which_is_closed_before_anybody_looks(tmp_path: Path, no_keepers: None) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": 1})
        removed_log(store.path)
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a")] == [b"1"]


def test_an_active_log_that_is_there_begins_no_other(tmp_path: Path, no_keepers: None) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": 1})
        keeps_house(store)
        assert [path.name for path in (store.path / "streams" / "a").glob("*.log")] == ["00000001.log"]


def test_where_there_is_no_room_for_the_next_segment_it_is_begun_once_there_is(
    tmp_path: Path, no_keepers: None
) -> None:
    is_full = False

    def step(kind: str, path: Path) -> None:
        if is_full and kind == "create":
            raise failure(path, "write", errno.ENOSPC)

    with diskstream.open(tmp_path / "store", files=Watched(step)) as store:
        stream = store.stream("a")
        for number in range(3):
            stream.add({"n": number})
            stream.seal()
        stream.add({"n": 3})
        removed_log(store.path)
        is_full = True
        assert stream.trim(maxlen=2) == 2
        keeps_house(store)
        assert not (store.path / "streams" / "a" / "00000001.seg").exists()  # what makes room is done all the same
        stream.add({"n": 4})
        is_full = False
        keeps_house(store)
    with diskstream.open(tmp_path / "store") as again:
        assert [entry["n"] for entry in again.stream("a")] == [b"2", b"3", b"4"]


def test_one_that_was_put_back_is_not_taken_for_the_newest_where_the_next_goes_too(
    tmp_path: Path, no_keepers: None
) -> None:
    """What came behind it would be missing without a word."""
    with diskstream.open(tmp_path / "store", seal="manual") as store:
        store.stream("a").add({"n": 1})
        removed_log(store.path)
        keeps_house(store)
        store.stream("a").add({"n": 2})
    removed_log(tmp_path / "store")
    with diskstream.open(tmp_path / "store") as again, pytest.raises(CorruptionError, match=r"00000002\.log"):
        list(again.stream("a").range())
