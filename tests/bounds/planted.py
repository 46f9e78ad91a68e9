"""Leaks to be found: one small thing in one operation, of each kind."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diskstream import Stream
from diskstream.engine.files import Files
from diskstream.engine.log import StreamLog
from diskstream.group import Group
from tests.bounds.run import Job, run
from tests.engine.children import hear, say

__all__ = ["LEAKS", "hunt"]

_KEPT: list[object] = []


def _after(patch: pytest.MonkeyPatch, owner: Any, name: str, leak: Callable[[Any], object]) -> None:
    """Lets a method leak behind what it does."""
    whole = getattr(owner, name)

    def leaking(itself: Any, *given: Any, **named: Any) -> Any:
        done = whole(itself, *given, **named)
        leak(itself)
        return done

    patch.setattr(owner, name, leaking)


def an_object(patch: pytest.MonkeyPatch) -> None:
    """Of each add, an object without anything in it."""
    _after(patch, Stream, "add", lambda _: _KEPT.append(object()))


def a_cycle(patch: pytest.MonkeyPatch) -> None:
    """Of each acknowledgement, a list; and it is held."""
    _after(patch, Group, "ack", lambda _: _KEPT.append([]))


def native_memory(patch: pytest.MonkeyPatch) -> None:
    """Of each add, the least that malloc gives."""
    _after(patch, Stream, "add", lambda _: ctypes.CDLL(None).malloc(1))


def a_descriptor(patch: pytest.MonkeyPatch) -> None:
    """Of each stream that is closed, its descriptor."""
    _after(patch, StreamLog, "close", lambda _: os.open(os.devnull, os.O_RDONLY))


def a_thread(patch: pytest.MonkeyPatch) -> None:
    """Of each stream that is closed, a thread that waits."""
    _after(patch, StreamLog, "close", lambda _: threading.Thread(target=threading.Event().wait, daemon=True).start())


def files(patch: pytest.MonkeyPatch) -> None:
    """What should be removed stays."""

    def stays(_: Files, path: Path) -> None:
        if path.exists() and path.suffix == ".seg":
            path.rename(path.with_name(f"{path.name}.{path.stat().st_ino}.kept"))
        else:
            path.unlink(missing_ok=True)

    patch.setattr(Files, "unlink", stays)


def rows_of_the_view(patch: pytest.MonkeyPatch) -> None:
    """Of each group that is destroyed, a row."""

    def leave(group: Group) -> None:
        view = group.stream._store._view
        assert view is not None
        view.write(lambda txn: txn.put(os.urandom(24), bytes(2000)))

    _after(patch, Group, "destroy", leave)


def an_object_of_a_trim(patch: pytest.MonkeyPatch) -> None:
    """Of each trim, an object: nothing else in the cycle is done so seldom."""
    _after(patch, Stream, "trim", lambda _: _KEPT.append(object()))


def native_memory_of_a_group(patch: pytest.MonkeyPatch) -> None:
    """Of each group that is destroyed, the least that malloc gives."""
    _after(patch, Group, "destroy", lambda _: ctypes.CDLL(None).malloc(1))


LEAKS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "Python blocks": ("entries", an_object),
    "Python objects": ("groups", a_cycle),
    "native bytes": ("entries", native_memory),
    "descriptors": ("openings", a_descriptor),
    "threads": ("openings", a_thread),
    "disk bytes": ("entries", files),
    "view pages": ("groups", rows_of_the_view),
    "Python blocks of a trim": ("entries", an_object_of_a_trim),
    "native bytes of a group": ("groups", native_memory_of_a_group),
}


def hunt() -> None:
    """Plants one leak after the other in forks of this process, and says what is found."""
    while kind := hear():
        name, plant = LEAKS[kind]
        if os.fork() == 0:
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                say(*run(Job(name, 0.0, tries=1)).violations, "end")
            os._exit(0)
        os.wait()
