"""Ctrl-C at a chosen moment: a KeyboardInterrupt wherever the interpreter could hand a signal to Python code."""

import _thread
import contextlib
import dis
import gc
import operator
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import diskstream
from diskstream import EntryID, Store
from diskstream.engine.locks import Locks
from diskstream.engine.moved import FORKS
from tests.engine.children import LIMIT_S, say
from tests.engine.sample import SMALL, fast_directory

__all__ = ["WORKS", "Interruption", "interrupt_everywhere", "interrupted", "made", "open_below"]

_OPTIONS = {**SMALL, "pending_rows": 1}  # what is pending goes through the view, which has locks of its own


_TOOL = 4  # of those that sys.monitoring leaves to whoever wants one


def _signal(disarm: "partial[None]") -> Callable[..., object]:
    """A trace function that asks for SIGINT and ends the tracing.

    It is made of native functions alone. The interpreter looks for signals between the steps of Python code, so one
    that was asked for by Python code would be found in that code, and not in the code that is traced.
    """
    both = map(operator.call, [partial(_thread.interrupt_main, signal.SIGINT), disarm])
    exhaust: Callable[[], object] = partial(deque, both)
    return partial(print, file=SimpleNamespace(write=len, flush=exhaust), flush=True)


class Interruption:
    """Lets SIGINT arrive at the `nth` of the moments at which the interpreter looks for signals in the library's code.

    The locks and events that it uses are not only native code, and belong to it here.

    It looks when a function begins, when a loop goes round, and behind the call of a native function.
    """

    def __init__(self, nth: int) -> None:
        self.left, self.place, self._thread = nth, "", 0

    def begin(self) -> None:
        """Counts the moments of this thread from here on.

        From Python 3.12 on a trace function may miss steps of functions that are traced for the first time.
        """
        self._thread = threading.get_ident()
        if sys.version_info < (3, 12):
            sys.settrace(self._trace)
        else:
            self.end()  # what was begun before may have been interrupted as it ended
            sys.monitoring.use_tool_id(_TOOL, "interruption")
            sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, self._watch)
            sys.monitoring.set_events(_TOOL, sys.monitoring.events.INSTRUCTION)

    def end(self) -> None:
        """Counts no more."""
        if sys.version_info < (3, 12):
            sys.settrace(None)
        elif sys.monitoring.get_tool(_TOOL) is not None:
            sys.monitoring.set_events(_TOOL, 0)
            sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, None)
            sys.monitoring.free_tool_id(_TOOL)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.left <= 0 or not _is_ours(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self._counted(frame.f_code, frame.f_lasti):
            self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            # Takes effect before the next step of this frame, and is heard at the next look.
            return _signal(partial(sys.settrace, None))
        return self._trace

    def _watch(self, code: CodeType, offset: int) -> Any:
        if self.left <= 0 or threading.get_ident() != self._thread or not _is_ours(code):
            return
        if self._counted(code, offset):
            lines = (line for start, end, line in code.co_lines() if start <= offset < end)
            self.place = f"{Path(code.co_filename).name}:{next(lines, None)}"
            if sys.version_info >= (3, 12):
                disarm = partial(sys.monitoring.set_events, _TOOL, 0)
                sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, _signal(disarm))

    def _counted(self, code: CodeType, offset: int) -> bool:
        """Whether the moment has come; where the interpreter looks behind this step of the code, it counts."""
        if dis.opname[code.co_code[offset]].startswith(("RESUME", "JUMP_B", "CALL")):
            self.left -= 1
            return self.left == 0
        return False


@cache
def _is_ours(code: CodeType) -> bool:
    path = Path(code.co_filename)
    return "diskstream" in path.parts or path.name in ("contextlib.py", "threading.py")


WORKS: dict[str, Callable[[Store], object]] = {
    "add, trimming": lambda store: store.stream("x").add({"n": "new"}, "90-1", maxlen=5),
    "delete entries": lambda store: store.stream("x").delete("3-0", "7-0"),
    "seal": lambda store: store.stream("x").seal(),
    "read": lambda store: store.stream("x").group("g", create=False).consumer("d").read(count=3),
    "ack": lambda store: store.stream("x").group("g", create=False).ack("1-0", "3-0"),
    "claim": lambda store: store.stream("x").group("g", create=False).consumer("d").claim("1-0", "2-0", "4-0"),
    "compact": lambda store: store.stream("x").compact(),
    "new stream": lambda store: store.stream("y").add({"n": "1"}, "1-0"),
    "delete": lambda store: store.delete("x"),
    "delete with others": lambda store: store._delete_all([b"x", b"none"]),
    "delete unopened": lambda store: (store._give_up(1), store._give_up(1), store._delete_all([b"x"])),
    "rename": lambda store: store.rename("x", "y"),
    "close": lambda store: store.close(),
}


def interrupted(store: Store, work: Callable[[Store], object], nth: int) -> str | None:
    """Where the work was interrupted at the `nth` moment; None where it was done before."""
    interruption = Interruption(nth)
    try:
        interruption.begin()
        try:
            work(store)
        finally:
            interruption.end()
    except KeyboardInterrupt:
        pass
    return interruption.place or None


# Of each stream its entries, and what its groups have pending, with how often each was delivered.
Contents = dict[bytes, tuple[list[EntryID], list[tuple[EntryID, bytes, int]]]]


def _contents(store: Store) -> Contents:
    return {name: _contents_of(store.stream(name)) for name in store.streams()}


def _contents_of(stream: diskstream.Stream) -> tuple[list[EntryID], list[tuple[EntryID, bytes, int]]]:
    ids = [entry.id for entry in stream.range()]
    groups = [stream.group(group.name, create=False) for group in stream.groups()]
    return ids, [(row.id, row.consumer, row.deliveries) for group in groups for row in group.pending_range()]


def made(path: Path) -> Store:
    """A store with a sealed segment, rows, and what a group has pending."""
    store = diskstream.open(path, **_OPTIONS)
    for number in range(10):
        store.stream("x").add({"n": str(number)}, EntryID(number + 1, 0))
        if number == 5:
            store.stream("x").seal()
    store.stream("x").group("g", start="0").consumer("c").read(count=4)
    return store


def _others_roll(store: Store, path: Path) -> str:
    """Another opening of the store adds and rolls, in a thread of its own: a lock that nobody gives up stops it."""
    return _others(store, path, roll=True)


def _others_add(store: Store, path: Path) -> str:
    """Another opening adds, and nobody rolls."""
    return _others(store, path, roll=False)


def _others(store: Store, path: Path, *, roll: bool) -> str:
    def use() -> None:
        with diskstream.open(path, **_OPTIONS) as other:
            for name in other.streams():
                other.stream(name).add({"n": "other"}, "900-0")
                if roll:
                    other.stream(name).seal()
            if roll:
                other.stream("z").add({"n": "other"})

    said = _in_time(use)
    with contextlib.suppress(diskstream.StorageError):  # which may say that the stream must be opened again
        store.close()
    return said


def _goes_on(store: Store, path: Path) -> str:
    """Who was interrupted goes on with the same store, as far as it lets him, and closes it; nobody else comes."""

    def use() -> None:
        with store if not store.closed else diskstream.open(path, **_OPTIONS) as same:
            for name in same.streams():
                same.stream(name).add({"n": "same"}, "900-0")

    return _in_time(use)


def _in_time(use: Callable[[], None]) -> str:
    done: list[str] = []

    def told() -> None:
        try:
            use()
            done.append("usable")
        except Exception as error:  # noqa: BLE001  # shown with the place that it came after
            done.append(f"{type(error).__name__}: {error}")

    user = threading.Thread(target=told, daemon=True)
    user.start()
    user.join(LIMIT_S / 8)
    return done[0] if done else "locked for ever"


_AFTER = (_goes_on, _others_add, _others_roll)


# Works of two steps, each whole: what is there between them.
_BETWEEN: dict[str, Callable[[Contents], Contents]] = {
    "add, trimming": lambda before: {b"x": ([*before[b"x"][0], EntryID(90, 1)], before[b"x"][1])},
    "new stream": lambda before: {**before, b"y": ([], [])},
}


def _is_right(found: Contents, possible: list[Contents]) -> bool:
    """Whether all is as the work found it, left it or has it in between, and what was added since is there, last."""
    others = {name: ids for name, ids in found.items() if name != b"z"}
    is_there = all(ids[-1:] == [EntryID(900, 0)] for ids, _ in others.values())
    return is_there and {name: (ids[:-1], pending) for name, (ids, pending) in others.items()} in possible


def open_below(path: Path) -> list[str]:
    """Files of a store that this process has open, by what they are called."""
    found = []
    for number in os.listdir("/proc/self/fd"):  # names, of which one is gone by then
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115  # of a file that may be removed
    return sorted(name.removesuffix(" (deleted)") for name in found if name.startswith(f"{path}/"))


def interrupt_everywhere(name: str) -> None:
    """Does a work again and again, interrupted a moment later each time; says whatever is not right then."""
    nth, moments = 1, 0
    with fast_directory() as directory:
        with made(directory / "whole") as store:
            before = _contents(store)
            WORKS[name](store)
        with diskstream.open(directory / "whole", **_OPTIONS) as store:
            possible = [before, _contents(store)]
        if name in _BETWEEN:
            possible.append(_BETWEEN[name](before))
        while True:
            place: str | None = ""
            for what in _AFTER:
                path = directory / f"{nth}{what.__name__}"
                store = made(path)
                place = interrupted(store, WORKS[name], nth)
                if place is None:
                    store.close()  # lest its threads make a file in what is being removed
                    break
                said = what(store, path)
                del store
                left = open_below(path) if name != "close" else []  # a store that is dropped is closed behind it
                if left:
                    gc.collect()  # errors hold the frames that they came through
                    left = open_below(path)
                with diskstream.open(path, **_OPTIONS) as again:
                    problems, found = again.verify().problems, _contents(again)
                if said != "usable" or problems or left or not _is_right(found, possible):
                    say(f"after Ctrl-C at moment {nth}, {place}, {what.__name__}: {said}, {problems}, {left}, {found}")
            if place is None:
                break
            moments += 1
            say("at", nth)  # who hears nothing for long takes it for stuck
            # Every moment at first, then further and further apart: long works repeat themselves.
            nth += 1 + nth // 40
    say("moments", moments)


def _interrupted_as(
    work: Callable[[], object], widening: int, prepare: Callable[[], object] = lambda: None
) -> tuple[int, int]:
    """Does a work again and again, interrupted a moment later each time: how often, and how often nobody heard it."""
    sys.unraisablehook = lambda _: None
    nth, moments, lost = 1, 0, 0
    while True:
        prepare()
        interruption = Interruption(nth)
        try:
            interruption.begin()
            try:
                work()
            finally:
                interruption.end()
            if not interruption.place:
                return moments, lost
            lost += 1
        except KeyboardInterrupt:
            pass
        moments += 1
        nth += 1 + nth // widening


def interrupt_as_another_gives_way() -> None:
    """Adds to a stream for which another is closed, interrupted; how often, and how often that was not heard, it
    says."""
    with fast_directory() as directory, diskstream.open(directory / "s", **_OPTIONS, max_open_streams=1) as store:

        def prepare() -> None:
            for name in ("y", "x"):
                store.stream(name).add({"n": "before"})

        # Further and further apart: what was interrupted is recovered, and the longer a log is, the more steps.
        say(*_interrupted_as(lambda: store.stream("y").add({"n": "new"}), 80, prepare))


def interrupt_as_one_is_alone_with_a_file() -> None:
    """Locks a file for itself alone, and gives that up, interrupted; how often, and how often that was not heard, it
    says."""

    def work() -> None:
        locks = Locks(file.fileno(), FORKS.count)
        locks.is_alone()
        locks.give_up()

    with fast_directory() as directory, (directory / "ctl").open("wb") as file:
        say(*_interrupted_as(work, 1 << 20))
