"""Streams deleted, renamed and made anew under other processes' feet."""

import contextlib
import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import ChangedError, DiskFullError, EntryID, StorageError, Store, Stream, copying
from diskstream.engine import opening
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.page import Page
from tests.engine.children import LIMIT_S, child, until
from tests.engine.sample import SMALL, files_of, log_of
from tests.engine.stand_ins import Watched, failure
from tests.engine.users import follow_names, use


def add(store: Store, what: str, count: int = 1, name: str = "x") -> list[EntryID]:
    stream = store.stream(name)
    return [stream.add({"n": f"{what} {number}"}) for number in range(count)]


def there(store: Store, name: str = "x") -> list[str]:
    return [entry["n"].decode() for entry in store.stream(name).range()]


def made_anew(by: Store) -> None:
    """The stream goes, and another of its name comes, with other entries."""
    by.delete("x")
    add(by, "new", 3)


def moved_away(by: Store) -> None:
    by.rename("x", "y")
    add(by, "new", 3)


def replaced(by: Store) -> None:
    add(by, "new", 3, "other")
    by.rename("other", "x")


STALE_USES: dict[str, Callable[[Store, Stream], object]] = {
    "seal": lambda store, stream: store.seal("x"),
    "seal all": lambda store, stream: store.seal(),
    "compact": lambda store, stream: store.compact(),
    "trim": lambda store, stream: stream.trim(maxlen=3),
    "delete entries": lambda store, stream: stream.delete("1-1"),
    "sync": lambda store, stream: store.sync(),
    "verify": lambda store, stream: store.verify(),
    "range": lambda store, stream: list(stream.range()),
    "get": lambda store, stream: stream.get("1-1"),
    "len": lambda store, stream: len(stream),
    "info": lambda store, stream: stream.info(),
    "read": lambda store, stream: stream.read("0-0"),
    "columns": lambda store, stream: stream.columns(),
    "set_id": lambda store, stream: stream.set_id("99999999999999-0"),
    "wait for durability": lambda store, stream: stream.add({"n": "stale"}, durable=True),
    "close": lambda store, stream: store.close(),
}


ADDS: dict[str, Callable[[Stream], object]] = {
    "add": lambda stream: stream.add(zip(["n"], ["late"], strict=True)),  # type: ignore[call-overload]  # iterators are taken, and used up
    "add, with an ID": lambda stream: stream.add(iter([("n", "late")]), f"{2**60}-0"),  # type: ignore[call-overload]  # iterators are taken, and used up
    "add_many": lambda stream: stream.add_many([iter([("n", "late")])]),  # type: ignore[list-item]  # iterators are taken, and used up
}


@pytest.mark.parametrize("change", [made_anew, moved_away, replaced])
@pytest.mark.parametrize("add_late", ADDS.values(), ids=ADDS)
def test_fields_that_can_be_read_but_once_are_added_to_the_new_stream(
    tmp_path: Path, change: Callable[[Store], None], add_late: Callable[[Stream], object]
) -> None:
    """The first attempt had read them, and the second said that an entry needs at least one field."""
    with diskstream.open(tmp_path / "s", **SMALL) as stale, diskstream.open(tmp_path / "s", **SMALL) as other:
        add(stale, "old", 2)
        stream = stale.stream("x")
        add(stale, "old", 1)
        change(other)
        add_late(stream)
        assert there(other) == ["new 0", "new 1", "new 2", "late"]


@pytest.mark.parametrize("change", [made_anew, moved_away, replaced])
@pytest.mark.parametrize("use_it", STALE_USES.values(), ids=STALE_USES.keys())
def test_who_still_has_the_old_stream_open_does_the_new_one_no_harm(
    tmp_path: Path, change: Callable[[Store], None], use_it: Callable[[Store, Stream], object]
) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as stale, diskstream.open(tmp_path / "s", **SMALL) as other:
        add(stale, "old", 5)
        log_of(stale).roll()
        add(stale, "old", 2)
        stream = stale.stream("x")
        change(other)
        use_it(stale, stream)
        assert [line for line in there(other) if not line.startswith("stale")] == ["new 0", "new 1", "new 2"]
        if not stale.closed:
            assert there(stale) == there(other)
        add(other, "last")
        expected = there(other)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert there(store) == expected
        assert store.recoveries == []
        assert store.verify().ok
        if change is moved_away:
            assert there(store, "y") == [f"old {number}" for number in (0, 1, 2, 3, 4, 0, 1)]


class BetweenOpeningAndLocking(Files):
    """Does something else once, after a stream's control page was opened and before it is locked."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then
        self.armed = False

    def open_ctl(self, path: Path) -> tuple[int, diskstream._native.Ctl]:
        opened = super().open_ctl(path)
        if self.armed and self.then is not None and "streams" in path.parts:
            then, self.then = self.then, None
            then()
        return opened


@pytest.mark.parametrize("change", [made_anew, moved_away, replaced])
@pytest.mark.parametrize("others_have_it_open", [True, False])
def test_a_page_that_was_moved_away_before_it_was_locked_is_not_believed(
    tmp_path: Path, change: Callable[[Store], None], others_have_it_open: bool
) -> None:
    """Else two processes write one log, each with a lock that the other does not know."""
    with diskstream.open(tmp_path / "s", **SMALL) as other:
        add(other, "old")
        if not others_have_it_open:
            other._forget(b"x", log_of(other))
        files = BetweenOpeningAndLocking(lambda: change(other))
        with diskstream.open(tmp_path / "s", **SMALL, files=files) as late:
            files.armed = True
            add(late, "late", 2)
            add(other, "other", 2)
            add(late, "more", 1)
            assert files.then is None
            assert there(late) == there(other)
            new = ["new 0", "new 1", "new 2"]
            assert there(other) == [*new, "late 0", "late 1", "other 0", "other 1", "more 0"]


def test_a_stream_that_goes_before_its_page_is_opened_is_made_anew(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as other:
        add(other, "old")
        other._forget(b"x", log_of(other))

        class Late(Files):
            def open_ctl(self, path: Path) -> tuple[int, diskstream._native.Ctl]:
                if "streams" in path.parts and other.exists("x") and armed:
                    armed.clear()
                    other.delete("x")
                return super().open_ctl(path)

        armed: list[bool] = []
        with diskstream.open(tmp_path / "s", **SMALL, files=Late()) as late:
            armed.append(True)
            add(late, "late")
            assert not armed
            assert there(late) == there(other) == ["late 0"]


@pytest.mark.parametrize("move", ["delete", "rename"])
def test_a_move_that_fails_leaves_the_stream_usable_by_all(tmp_path: Path, move: str) -> None:
    ill = False

    def step(kind: str, path: Path) -> None:
        if ill and kind == "rename" and "streams" in path.parts:
            raise failure(path, kind, errno.EIO)

    with (
        diskstream.open(tmp_path / "s", **SMALL) as idle,
        diskstream.open(tmp_path / "s", **SMALL, files=Watched(step)) as mover,
    ):
        add(idle, "one")
        assert there(mover) == ["one 0"]
        ill = True
        with pytest.raises(StorageError):
            mover.delete("x") if move == "delete" else mover.rename("x", "y")
        ill = False
        with child(use, tmp_path / "s", {}) as another:
            assert another.hear() == "open"
            another.ask("add two")
            another.ask("add three")
            assert another.ask("numbers").split() == ["one", "0", "two", "three"]
        assert there(idle) == there(mover) == ["one 0", "two", "three"]
        assert mover.delete("x")
        assert there(idle) == []


@pytest.mark.parametrize("change", [lambda by: by.delete("x"), made_anew, moved_away, replaced])
def test_a_part_of_a_stream_that_went_does_not_pass_for_all_of_it(
    tmp_path: Path, change: Callable[[Store], None]
) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as reader, diskstream.open(tmp_path / "s", **SMALL) as other:
        add(other, "old", 300)
        other.seal()
        under_way = [reader.stream("x").range(), reader.stream("x").revrange()]
        for entries in under_way:
            next(entries)
        change(other)
        for entries in under_way:
            with pytest.raises(ChangedError, match="removed or renamed"):
                list(entries)
        assert there(reader) == there(other)


def test_a_copy_of_a_stream_that_goes_meanwhile_is_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as reader, diskstream.open(tmp_path / "s", **SMALL) as other:
        add(other, "old", 300)
        other.seal()
        real = copying._add_part

        def added(stream: Stream, part: list[tuple[EntryID, list[tuple[bytes, bytes]]]]) -> None:
            if other.exists("x"):
                moved_away(other)
            real(stream, part)

        monkeypatch.setattr(copying, "_AT_ONCE", 10)
        monkeypatch.setattr(copying, "_add_part", added)
        with pytest.raises(ChangedError):
            copying.copy_stream(reader.stream("x"), reader.stream("copy"))


ADDS_IN_STEPS: dict[str, Callable[[Stream], object]] = {
    "trims": lambda stream: stream.add({"n": "mine"}, maxlen=100),
    "idempotent": lambda stream: stream.add({"n": "mine"}, producer="p", message_id="m"),
    "many": lambda stream: stream.add_many([{"n": "mine"}], maxlen=100),
}


@pytest.mark.usefixtures("no_keepers")  # which follow a roll too: then the flush does not come upon it
@pytest.mark.parametrize("act", ADDS_IN_STEPS.values(), ids=ADDS_IN_STEPS.keys())
def test_what_was_added_before_its_stream_was_renamed_is_not_added_once_more(
    tmp_path: Path, act: Callable[[Stream], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is there, its flush is not begun: others roll and append, and rename the stream."""
    options = {**SMALL, "fsync": "always"}
    with diskstream.open(tmp_path / "s", **options) as store, diskstream.open(tmp_path / "s", **options) as other:
        add(store, "old")
        assert there(other) == ["old 0"]
        ours, theirs = log_of(store), log_of(other)
        flush, resolve = ours.flush, ours.resolve

        def overtaken() -> None:
            theirs.roll()
            with theirs.locked():
                theirs.prepare()
                theirs.native.add({"n": "theirs"}, None, None, False, True, None)
            flush()

        def renamed(reason: int, *, held: bool = False) -> None:
            if other.exists("x"):
                other.rename("x", "y")
            resolve(reason, held=held)

        monkeypatch.setattr(ours, "flush", overtaken)
        monkeypatch.setattr(ours, "resolve", renamed)
        act(store.stream("x"))
        assert store.streams() == [b"y"]
        assert there(store, "y") == ["old 0", "mine", "theirs"]


@pytest.mark.parametrize("move", ["delete", "rename"])
def test_who_sleeps_on_a_stream_is_woken_by_the_next_of_its_name(tmp_path: Path, move: str) -> None:
    found: list[str] = []
    with diskstream.open(tmp_path / "s", **SMALL) as reader, diskstream.open(tmp_path / "s", **SMALL) as other:
        add(other, "old", 2)
        last = reader.stream("x").last_id()
        sleeping = threading.Thread(
            target=lambda: found.extend(entry["n"].decode() for entry in reader.stream("x").read(last, block=30))
        )
        sleeping.start()
        other.delete("x") if move == "delete" else other.rename("x", "y")
        # Its own IDs begin anew: the sleeper waits for one above the last that it knew.
        other.stream("x").add({"n": "new"}, last.next() or "0-1")
        sleeping.join()
    assert found == ["new"]


def test_no_entry_is_lost_when_streams_are_renamed_under_producers(tmp_path: Path) -> None:
    """Each goes to whatever has the name at that moment, and is found there."""
    with diskstream.open(tmp_path / "s", **SMALL) as store, contextlib.ExitStack() as stack:
        producers = [stack.enter_context(child(follow_names, tmp_path / "s", by)) for by in range(2)]
        for producer in producers:
            assert producer.hear() == "ready"
            producer.tell()
        for number in range(30):
            until(lambda: store.exists("x"))
            store.rename("x", f"x {number}")
        for producer in producers:
            producer.tell()
        given = [one for producer in producers for one in producer.hear().split()]
        found = [(entry["by"], entry["n"]) for name in store.streams() for entry in store.stream(name).range()]
        assert len(found) == len(set(found)) == len(given)
        assert sorted(given) == sorted(str(entry.id) for name in store.streams() for entry in store.stream(name))
        assert len(store.streams()) >= 30
        assert store.verify().ok


def test_what_is_moved_by_two_at_once_is_moved_once(tmp_path: Path) -> None:
    for turn in range(10):
        stores = [diskstream.open(tmp_path / "s", **SMALL) for _ in range(3)]
        add(stores[0], "one", name=f"{turn}")
        went: list[bool] = []
        going = threading.Barrier(3)

        def take(store: Store, turn: int = turn, going: threading.Barrier = going, went: list[bool] = went) -> None:
            going.wait()
            went.append(store.delete(f"{turn}"))

        threads = [threading.Thread(target=take, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(went) == [False, False, True]
        for store in stores:
            store.close()
    assert set(files_of(tmp_path / "s")) == {"store.json", "ctl"}


def test_who_opens_a_stream_while_a_renaming_of_it_fails_opens_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It takes the mark for one of a process that died, and waits for its lock: by then the mark is gone.
    begun = threading.Event()
    finish = opening._finish_leaving

    def finishing(directory: Path, files: Files, page: Page) -> None:
        begun.set()
        finish(directory, files, page)

    def failing() -> Path:
        late.start()
        assert begun.wait(LIMIT_S)
        raise DiskFullError("a name", "write", 28, "No space left on device")

    monkeypatch.setattr(opening, "_finish_leaving", finishing)
    with diskstream.open(tmp_path / "s", **SMALL) as first, diskstream.open(tmp_path / "s", **SMALL) as second:
        first.stream("x").add({"by": 1}, "1-0")
        late = threading.Thread(target=lambda: second.stream("x").add({"by": 2}, "2-0"))
        with pytest.raises(DiskFullError):
            log_of(first).leave(failing, flush=True)
        late.join(LIMIT_S)
        first.stream("x").add({"by": 1}, "3-0")
        second.stream("x").add({"by": 2}, "4-0")
        for store in (first, second):
            assert [entry.id.ms for entry in store.stream("x").range()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "move",
    [lambda store: store.rename("x", "z"), lambda store: store.delete("x"), lambda store: store.rename("z", "x")],
)
def test_what_others_add_to_is_not_moved_by_who_cannot_open_it(tmp_path: Path, move: Callable[[Store], object]) -> None:
    """It was, as if it were damaged, and they were not told: they went on where it was then. What they added to the one
    name was found by the other, or by none."""

    class Short(Files):
        fails = True

        def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
            if self.fails and path.parent.name == "x":
                raise failure(path, "map", errno.ENOMEM)
            return super().open_log(path, writable=writable)

    disk = Short()
    with diskstream.open(tmp_path / "s", **SMALL) as user, diskstream.open(tmp_path / "s", **SMALL, files=disk) as by:
        add(user, "before")
        add(user, "other", name="z")
        with pytest.raises(StorageError, match="could not map"):
            move(by)
        add(user, "behind")
        assert there(user) == ["before 0", "behind 0"]
        disk.fails = False
        assert there(by) == ["before 0", "behind 0"]
        assert there(by, "z") == ["other 0"]
        move(by)


@pytest.mark.parametrize("page", ["as it was", "a folder"])
def test_who_is_alone_deletes_what_cannot_be_opened(tmp_path: Path, page: str) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        add(store, "before")
    if page == "a folder":
        path = tmp_path / "s" / "streams" / "x" / "ctl"
        path.unlink()
        path.mkdir()

    class Short(Files):
        def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
            raise failure(path, "map", errno.ENOMEM)

    with diskstream.open(tmp_path / "s", **SMALL, files=Short()) as store:
        assert store.delete("x")
        assert store.streams() == []
