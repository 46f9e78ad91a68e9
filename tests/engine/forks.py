"""Processes that fork with a store in use. They are children themselves, so that no test runner is forked."""

import contextlib
import fcntl
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import diskstream
from diskstream import Store
from tests.engine.children import LIMIT_S, hear, say
from tests.engine.sample import SMALL, log_of


def forked(work: Callable[[], None]) -> int:
    """Does something in a fork, which ends behind it. Returns the process; it kills itself where it hangs."""
    pid = os.fork()
    if pid:
        return pid
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S / 2)  # whose signal is fatal
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def add(store: Store, by: str, count: int) -> None:
    for number in range(count):
        store.stream("x").add({"by": by, "n": str(number)})


def both_add(path: str, fsync: str) -> None:
    """Parent and fork add at the same time, through what the parent had opened."""
    with diskstream.open(path, **{**SMALL, "fsync": fsync}) as store:
        stream = store.stream("x")
        stream.add({"by": "before", "n": "0"})

        def work() -> None:
            add(store, "fork", 60)
            assert len(stream) >= 61

        pid = forked(work)
        add(store, "parent", 60)
        say(ended(pid))
        say(len(stream))


def fork_among_threads(path: str, fsync: str) -> None:
    """Forks again and again while threads add, read and roll: any lock may be held at that moment."""
    stop = threading.Event()
    with diskstream.open(path, **{**SMALL, "fsync": fsync, "seal": "background"}) as store:
        add(store, "before", 1)

        def busy(by: str) -> None:
            while not stop.is_set():
                add(store, by, 5)
                list(store.stream("x").revrange(count=7))

        threads = [threading.Thread(target=busy, args=(f"thread {number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        codes = [ended(forked(lambda turn=turn: add(store, f"fork {turn}", 3))) for turn in range(8)]  # type: ignore[misc]
        stop.set()
        for thread in threads:
            thread.join()
        say(*codes)
        there = [entry["by"].decode() for entry in store.stream("x").range()]
        say(sum(by.startswith("fork") for by in there))
        say(store.verify().ok)


def fork_while_locked(path: str) -> None:
    """Another thread holds the append lock when the process forks."""
    locked, release = threading.Event(), threading.Event()
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)

        def hold() -> None:
            with log_of(store).locked():
                locked.set()
                release.wait(LIMIT_S)

        thread = threading.Thread(target=hold)
        thread.start()
        locked.wait(LIMIT_S)
        pid = forked(lambda: add(store, "fork", 1))
        release.set()
        thread.join()
        add(store, "parent", 1)
        say(ended(pid))
        say(len(store.stream("x")))


def close_in_the_fork(path: str) -> None:
    """What the fork closes stays open in its parent, and stays locked."""
    store = diskstream.open(path, **SMALL)
    add(store, "before", 1)

    def work() -> None:
        add(store, "fork", 1)
        store.close()

    say(ended(forked(work)))
    with (Path(path) / "streams" / "x" / "ctl").open("rb") as page:
        try:
            fcntl.flock(page, fcntl.LOCK_EX | fcntl.LOCK_NB)
            say("unlocked")
        except BlockingIOError:
            say("locked")
    add(store, "parent", 1)
    say(len(store.stream("x")))
    store.close()


def leave_without_closing(path: str) -> None:
    """A fork that inherits a store and never touches it."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)
        say(ended(forked(lambda: None)))
        add(store, "parent", 1)
        say(len(store.stream("x")))


def go_on_reading(path: str) -> None:
    """An iterator that the parent has begun is used up by both."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 400)
        entries = store.stream("x").range()
        begun = [next(entries) for _ in range(100)]

        def work() -> None:
            try:
                rest = list(entries)
                assert [entry["n"] for entry in rest] == [b"%d" % number for number in range(100, 400)]
            except diskstream.ClosedError:
                pass
            assert len(list(store.stream("x").range())) == 400

        say(ended(forked(work)))
        say(len(begun) + len(list(entries)))


def multiprocess(path: str) -> None:
    """The standard library's pool, by forking."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)
        with multiprocessing.get_context("fork").Pool(2, initializer=_share, initargs=(store,)) as pool:
            pool.map(_add_one, range(20))
        say(len(store.stream("x")))
        say(len({entry.id for entry in store.stream("x").range()}))


_shared: list[Store] = []


def _share(store: Store) -> None:
    _shared[:] = [store]


def _add_one(number: int) -> None:
    add(_shared[0], f"worker {number}", 1)


def survive_the_parent(path: str) -> None:
    """The fork waits for a lock that its parent holds, and goes on when that one is killed."""
    store = diskstream.open(path, **SMALL)
    add(store, "before", 1)

    def work() -> None:
        add(store, "fork", 2)
        store.close()
        say("done")

    with log_of(store).locked():
        forked(work)
        say("locked")
        hear()


def block_in_parent(path: str) -> None:
    """A thread of the parent sleeps on the stream; what the fork adds wakes it."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)
        last = store.stream("x").last_id()
        found: list[str] = []
        reader = threading.Thread(
            target=lambda: found.extend(entry["by"].decode() for entry in store.stream("x").read(last, block=LIMIT_S))
        )
        reader.start()
        say(ended(forked(lambda: add(store, "fork", 1))))
        reader.join()
        say(*found)


def fork_beside_a_lost_store(path: str) -> None:
    """Forks while stores are open whose directories are gone: in which order the fork comes to them is by chance."""
    with contextlib.ExitStack() as stack:
        lost = [stack.enter_context(diskstream.open(f"{path}-lost{number}", **SMALL)) for number in range(8)]
        store = stack.enter_context(diskstream.open(path, **SMALL))
        for each in (*lost, store):
            add(each, "before", 1)
        for each in lost:
            shutil.rmtree(each.path)

        log = log_of(store, b"x")

        def work() -> None:
            add(store, "fork", 10)
            assert log_of(store, b"x") is not log, "the fork goes on with what is the parent's"
            for each in lost:
                try:
                    each.stream("x").add({"n": "2"})
                except diskstream.ClosedError as error:
                    assert "a fork could not open again" in str(error), error
                else:
                    raise AssertionError("added to a store that is gone")

        say(ended(forked(work)))
        say(len(store.stream("x")))
        stack.pop_all()  # nothing of them can be closed cleanly
        store.close()
