"""What the processes beside these tests do: wait, hold, die. Each is run by `tests.engine.children.child`."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

import diskstream
from diskstream import DiskstreamError, Group, NoGroupError, Store
from diskstream.engine import page, view_map, view_rows
from diskstream.engine.state import View
from tests.engine.children import LIMIT_S, hear, say

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 4, "fsync": "os", "pending_rows": 2}


def _group(path: str, **options: Any) -> Group:
    return diskstream.open(path, **{**SMALL, **options}).stream("x").group("g", create=False)


def wait(path: str, consumer: str, count: int, turns: int, fsync: str) -> None:
    """Waits for entries so many times over, and says what it was given each time."""
    member = _group(path, fsync=fsync).consumer(consumer)
    for _ in range(turns):
        try:
            say("got", *(entry.id for entry in member.read(count=count, block=LIMIT_S)))
        except NoGroupError:
            say("no group")
    hear()


def wait_for_old(path: str, consumer: str, claim_ms: int) -> None:
    """Waits for whatever comes first: something new, or something that lay too long with another."""
    member = _group(path).consumer(consumer)
    say("got", *(entry.id for entry in member.read(block=LIMIT_S, claim_ms=claim_ms)))
    hear()


def hold(path: str, consumer: str, fsync: str) -> None:
    """Takes all there is and never acknowledges it."""
    say("got", *(entry.id for entry in _group(path, fsync=fsync).consumer(consumer).read()))
    hear()


def serve(path: str, consumer: str, first_map_bytes: int) -> None:
    """Does what it is told, a word and its arguments a line, and answers."""
    view_map.FIRST_MAP_BYTES = first_map_bytes
    group = _group(path)
    member = group.consumer(consumer)
    does: dict[str, Callable[..., object]] = {
        "read": lambda count: " ".join(str(entry.id) for entry in member.read(count=int(count))),
        "ack": group.ack,
        "claim": lambda *ids: " ".join(map(str, member.claim_ids(*ids))),
        "pending": lambda: group.pending().total,
        "list": lambda: " ".join(str(row.id) for row in group.pending_range(count=1 << 40)),
        "add": lambda *numbers: len([group.stream.add({"n": number}) for number in numbers]),
    }
    say("ready")
    while True:
        word, *arguments = hear().split()
        say(does[word](*arguments))


# --- dying ------------------------------------------------------------------------------------------------------------


def _stop(word: str) -> None:
    """Says where it stands, and goes no further."""
    say(word)
    signal.pause()


def serve_without_a_boot(path: str, consumer: str, first_map_bytes: int) -> None:
    """As `serve`, where the system does not say which boot it is."""
    page._BOOT_ID = Path("/nowhere")
    serve(path, consumer, first_map_bytes)


def hold_all_readers(path: str) -> None:
    """Takes all places for readers of the view that are left, and lives."""
    with lmdb.open(f"{path}/view", max_readers=view_map.MAX_READERS, map_size=view_map.FIRST_MAP_BYTES) as env:
        held = []
        with contextlib.suppress(lmdb.ReadersFullError):
            while True:
                held.append(env.begin())
        say(f"held {len(held)}")
        signal.pause()


def die_in_the_view(path: str) -> None:
    """Stops in the middle of a transaction that merges pending entries into the view."""
    put = view_rows.put_chunks

    def put_some(txn: lmdb.Transaction, index: bytes, chunks: list[tuple[bytes, bytes]]) -> None:
        put(txn, index, chunks)
        _stop("within")

    view_rows.put_chunks = put_some
    _group(path).consumer("dead").read(count=5)


def die_behind_the_view(path: str) -> None:
    """Stops when the view has been written, and the log does not say so yet."""
    write = View.write

    def write_and_stop(view: View, change: Callable[[lmdb.Transaction], Any]) -> Any:
        done = write(view, change)
        _stop("behind")
        return done

    View.write = write_and_stop  # type: ignore[assignment,method-assign]  # of this process, which dies
    _group(path).consumer("dead").read(count=5)


def die_reading_the_view(path: str) -> None:
    """Stops with a reader's slot taken."""
    group = _group(path)
    group.pending()
    view = group.stream._store._view
    assert view is not None
    with view._environment().begin() as txn:
        txn.get(b"anything")
        _stop("reading")


# --- forks ------------------------------------------------------------------------------------------------------------


def _fork(work: Callable[[], None]) -> int:
    """Does something in a fork. Returns the process, which kills itself where it hangs."""
    pid = os.fork()
    if pid:
        return pid
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S / 2)
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def _consume(group: Group, consumer: str, most: int) -> list[str]:
    """Reads until there is nothing left, acknowledging every other entry."""
    given: list[str] = []
    member = group.consumer(consumer)
    while len(given) < most:
        entries = member.read(count=3)
        if not entries:
            break
        given += [str(entry.id) for entry in entries]
        group.ack(*(entry.id for entry in entries[::2]))
    return given


def _add(group: Group, count: int) -> None:
    for number in range(count):
        group.stream.add({"n": str(number)})


def fork_and_consume(path: str, fsync: str) -> None:
    """Parent and fork consume with the same store object, which the parent has used before."""
    group = _group(path, fsync=fsync)
    store: Store = group.stream._store
    say(*_consume(group, "before", 12))
    pid = _fork(lambda: say(*_consume(group, "fork", 1 << 30)))
    ours = _consume(group, "parent", 1 << 30)
    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    say(*ours)
    say(group.pending().total, sum(each.pending for each in group.consumers()))
    store.close()
    hear()


def fork_and_close(path: str) -> None:
    """A fork uses the view and closes its store; the parent goes on with its own."""
    group = _group(path)
    _consume(group, "before", 12)

    def work() -> None:
        _consume(group, "fork", 6)
        group.stream._store.close()

    say(os.waitstatus_to_exitcode(os.waitpid(_fork(work), 0)[1]))
    _consume(group, "parent", 6)
    shown = group.pending()
    say(shown.total, sum(shown.consumers.values()), len(group.pending_range(count=1000)))
    hear()


def fork_while_waiting(path: str) -> None:
    """A thread of the parent waits for an entry while the process forks, and the fork adds it."""
    group = _group(path)
    given: list[str] = []
    ready = threading.Event()

    def wait_here() -> None:
        ready.set()
        try:
            given.extend(str(entry.id) for entry in group.consumer("thread").read(block=LIMIT_S))
        except DiskstreamError as error:
            given.append(repr(error))

    thread = threading.Thread(target=wait_here)
    thread.start()
    ready.wait(LIMIT_S)
    say("waiting")
    hear()  # that it stands in the queue
    pid = _fork(lambda: _add(group, 1))
    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    thread.join(LIMIT_S)
    say(len(given))
    hear()
