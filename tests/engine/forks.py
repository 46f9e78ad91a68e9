"""Processes that fork with a store in use. They are children themselves, so that no test runner is forked."""

import contextlib
import fcntl
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import diskstream
from diskstream import Store
from diskstream.engine.moved import ForkedError, StreamMoved
from diskstream.object_address import file_systems
from tests.engine.children import LIMIT_S, hear, say
from tests.engine.sample import SMALL, log_of
from tests.engine.stand_ins import Watched


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


# Its hook is the first, and native: the signal that it asks for is heard where one is that came in the fork.
INTERRUPTED_IN_A_FORK = """
import _thread, functools, os, signal, sys, threading
os.register_at_fork(after_in_parent=functools.partial(_thread.interrupt_main, signal.SIGINT))
signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background of a shell ignores it
import diskstream
from tests.engine.sample import SMALL

def use(name):
    stream = store.stream(name)
    stream.add_many([{"n": n} for n in range(8)])
    said.append(len(stream.group("g", start="0").consumer("c").read()))

said = []
with diskstream.open(sys.argv[1], **{**SMALL, "pending_rows": 1}) as store:
    use("x")
    try:
        os.fork() or os._exit(0)
    except KeyboardInterrupt:
        said.append("interrupted")
    os.wait()
    threads = [threading.Thread(target=use, args=(name,), daemon=True) for name in ("x", "y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(float(sys.argv[2]))
    print(*said, flush=True)
    if any(thread.is_alive() for thread in threads):
        os._exit(1)
"""


def add_one(path: str) -> None:
    with diskstream.open(path, **SMALL) as store:
        add(store, "other", 1)
        say("added")


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


def fork_as_a_thread_is_alone(path: str, kind: str) -> None:
    """Forks as another thread is alone with the stream, and is killed at once; the fork lives on.

    Alone is who opens it when nobody else has it (`sync_dir`), and who closes it as the last (`pwrite_sync`).
    """
    reached, closing = threading.Event(), threading.Event()

    def step(what: str, where: Path) -> None:
        if what == kind and "streams/x" in str(where) and (kind == "sync_dir" or closing.is_set()):
            reached.set()
            threading.Event().wait(0.5)  # for the fork, which is not to come before what follows

    def open_and_close() -> None:
        store = diskstream.open(path, **SMALL, files=Watched(step))
        store.stream("x").add({"by": "parent", "n": "0"})
        closing.set()
        store.close()

    threading.Thread(target=open_and_close, daemon=True).start()
    assert reached.wait(LIMIT_S)
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    signal.setitimer(signal.ITIMER_REAL, 2 * LIMIT_S)  # whose signal is fatal
    say("forked")
    hear()
    os._exit(0)


class _SlowImport:
    """Finds no module, and takes its time for one."""

    def __init__(self, name: str) -> None:
        self.name, self.reached = name, threading.Event()

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == self.name and not self.reached.is_set():
            self.reached.set()
            threading.Event().wait(0.5)  # for the fork, which is not to come before what follows


def fork_as_a_thread_imports(_path: str) -> None:
    """Another thread is the first to need what reads object storage; parent and fork need it as well."""
    slow = _SlowImport("pyarrow.fs")
    sys.meta_path.insert(0, slow)
    assert slow.name not in sys.modules
    threading.Thread(target=file_systems, daemon=True).start()
    assert slow.reached.wait(LIMIT_S)
    say(ended(forked(file_systems)))


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
        codes = [ended(forked(lambda turn=turn: add(store, f"fork {turn}", 3))) for turn in range(8)]  # type: ignore[misc]  # bound now
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


class ForkingOnce:
    """Forks before one step that is taken on the way to the disk, as a signal handler may, and both go on with it.

    The child goes on at once, and its parent when that one has come to the end of the call, or has been told that it
    can do nothing; with `after`, the child goes on when the parent has done it all.
    """

    def __init__(self, *, after: bool) -> None:
        self.left, self.child, self.is_child = 0, 0, False
        self._after = after
        self._gate = os.pipe()

    def __call__(self, kind: str, _: Path) -> None:
        if self.is_child or kind == "create" or threading.current_thread() is not threading.main_thread():
            return  # `create` is what the stand-in does itself; and signal handlers run in the main thread
        self.left -= 1
        if self.left:
            return
        self.child = os.fork()
        if self.child == 0:
            self.is_child = True
            signal.setitimer(signal.ITIMER_REAL, LIMIT_S / 2)
            if self._after:
                os.read(self._gate[0], 1)
            for error in (StreamMoved, ForkedError):
                error.__new__ = self._made  # type: ignore[method-assign,assignment]  # of this child alone
        elif not self._after:
            os.read(self._gate[0], 1)

    def _made(self, kind: type[BaseException], *arguments: object) -> BaseException:
        self.go_on()
        return Exception.__new__(kind, *arguments)

    def go_on(self) -> None:
        """Lets the other one go on."""
        if self.is_child != self._after:
            os.write(self._gate[1], b".")

    def done(self) -> bool:
        """The parent has done what it forked in. Whether there was such a step."""
        if not self.child:
            return False
        self.go_on()
        say(ended(self.child))
        self.child = 0
        self._gate = os.pipe()  # more may have been written than was read
        return True


def go_on_with_the_call(path: str, after: bool) -> None:
    """Forks before each step of appends, rolls, sealing, compacting and deliveries, one after the other."""
    fork = ForkingOnce(after=after)
    store = diskstream.open(path, **{**SMALL, "pending_rows": 1}, files=Watched(fork))
    stream = store.stream("x")
    group = stream.group("g", start="0")

    def work(by: str) -> None:
        stream.add_many([{"by": by, "n": "x" * 1500}] * 8)
        given = group.consumer("c").read(count=7)
        group.ack(*[entry.id for entry in given[:5]])
        stream.seal()
        stream.compact()

    def work_of_the_child() -> None:
        fork.go_on()
        stream.add({"by": "fork", "n": ""})
        group.consumer("fork").read(count=1)
        group.pending_range()
        store.close()

    step, was_there = 0, True
    while was_there:
        step += 1
        fork.left = step
        try:
            work("either")
        except diskstream.ClosedError as error:
            if not fork.is_child or "begin the call again" not in str(error):
                raise
        if fork.is_child:
            work_of_the_child()
            os._exit(0)
        was_there = fork.done()
    fork.left = 0  # closing is nothing to fork in
    pending = [(each.id, each.consumer, each.deliveries) for each in group.pending_range(count=1 << 20)]
    store.close()
    shutil.rmtree(f"{path}/view")
    with diskstream.open(path, **SMALL) as again:
        found = again.stream("x").group("g", create=False).pending_range(count=1 << 20)
        say("end", step, pending == [(each.id, each.consumer, each.deliveries) for each in found])


def fork_with_a_retired_log(path: str) -> None:
    """A stream's log gave way to another one, while somebody reads it: the child lets go of it as of the others."""
    with diskstream.open(path, **SMALL, max_open_streams=1) as store:
        add(store, "parent", 3)
        log, reading = log_of(store), store.stream("x").range()
        next(reading)
        store.stream("y").add({"n": "0"})

        def work() -> None:
            assert log.has_let_go

        say(ended(forked(work)))
        assert len(list(reading)) == 2


def daemonize(path: str) -> None:
    """The child closes every descriptor and has their numbers for others, as a daemon may, before it uses the store."""
    with diskstream.open(path, **{**SMALL, "pending_rows": 1}) as store:
        stream, group = store.stream("x"), store.stream("x").group("g", start="0")
        add(store, "before", 3)
        stream.seal()
        assert len(group.consumer("c").read(count=1)) == len(list(stream.range(count=1))) == 1

        def work() -> None:
            there = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
            assert not [name for name in there if name.startswith(os.path.realpath(path))], there
            os.closerange(3, 256)
            taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
            assert not store.closed
            add(store, "fork", 2)
            assert len(group.consumer("c").read()) == 4
            store.close()
            for number in taken:
                os.close(number)  # which none had closed

        say(ended(forked(work)))


def fork_twice_unused(path: str) -> None:
    """A fork that never used the store forks another one, as a thread of it is opening the store."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)

        def opening() -> None:
            with store._mutex:
                begun.set()
                over.wait(LIMIT_S)

        begun, over = threading.Event(), threading.Event()

        def work() -> None:
            thread = threading.Thread(target=opening)
            thread.start()
            begun.wait(LIMIT_S)
            code = ended(forked(lambda: add(store, "grandchild", 1)))
            over.set()
            thread.join()
            add(store, "child", 1)
            assert code == 0

        say(ended(forked(work)))


def close_unused(path: str) -> None:
    """The fork closes what it never used: it stays closed, and so it does for a fork of it."""
    with diskstream.open(path, **SMALL) as store:
        add(store, "before", 1)

        def is_closed() -> None:
            try:
                store.stream("x")
            except diskstream.ClosedError:
                assert store.closed
            else:
                raise AssertionError("a store that was closed is open")

        def work() -> None:
            store.close()
            is_closed()
            assert ended(forked(is_closed)) == 0

        say(ended(forked(work)))
