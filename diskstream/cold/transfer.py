"""What goes to a place and comes from it: counted, at a pace."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from diskstream.cold_segments import Kept, Sound, Stub
from diskstream.errors import LostObjectError, RemoteError
from diskstream.ids import EntryID
from diskstream.objects import Place
from diskstream.pace import Pace

__all__ = ["RUN_AGAIN", "MoveReport", "Moved", "Progress", "Reader", "described", "fetching", "ignore"]

# Called with bytes just handled.
Progress = Callable[[int], None]
RUN_AGAIN = "run this again: it goes on where it stopped"


@dataclass(frozen=True)
class Moved:
    """One segment that was moved, or would be.

    Attributes:
        number, generation: the segment's.
        entries, first, last: what is in it, gone entries included.
        size_bytes: of its file.
        path: the object, below the place; empty in a dry run.
    """

    number: int
    generation: int
    entries: int
    first: EntryID
    last: EntryID
    size_bytes: int
    path: str = ""


@dataclass
class MoveReport:
    """What was moved.

    Attributes:
        stream: the stream's name.
        place: the URL of the place; empty where segments came back, perhaps from several.
        dry_run: whether nothing was done.
        segments: what was moved, or would be, in order.
        already: segments that were there before, and stayed there.
        stays: whether the newest sealed segment would have gone, but for the copy of the state that it holds.
    """

    stream: bytes
    place: str
    dry_run: bool
    segments: list[Moved] = field(default_factory=list)
    already: int = 0
    stays: bool = False

    @property
    def entries(self) -> int:
        """Entries of all of them."""
        return sum(each.entries for each in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(each.size_bytes for each in self.segments)


def ignore(_: int) -> None:
    """No progress is shown."""


def described(segment: Kept, path: str = "") -> Moved:
    """A segment as a report has it."""
    ids = segment.first, segment.last
    return Moved(segment.number, segment.generation, segment.entries, *ids, segment.size_bytes, path)


def _gone(stub: Stub) -> RemoteError:
    """Says of an object that is gone what was in it."""
    hint = "put it back there, or find a backup of the store"
    what = f"{stub.path} is not there any more: it holds entries {stub.first} to {stub.last}"
    return LostObjectError(stub.url, what, hint)


def fetching(
    place: Place, pace: Pace, progress: Progress, gone: Callable[[Stub], RemoteError] = _gone
) -> Callable[[Stub, Callable[[bytes], object]], None]:
    """What fetches from a place, counted and at a pace. `gone` is raised where there is no such object."""

    def fetch(stub: Stub, sink: Callable[[bytes], object]) -> None:
        def handled(data: bytes) -> None:
            sink(data)
            progress(len(data))
            pace.passed(len(data))

        try:  # this alone: what else is not found is a file of ours, as of a stream that went
            place.fetch(stub.path, handled, stub.size_bytes)
        except FileNotFoundError:
            raise gone(stub) from None

    return fetch


class Reader:
    """A sealed file as it is put: from its descriptor, at the pace."""

    def __init__(self, sound: Sound, pace: Pace, progress: Progress) -> None:
        self._sound, self._pace, self._progress = sound, pace, progress
        self._at = self._shown = 0

    def seek(self, offset: int, /) -> None:
        """Goes to a place in it."""
        self._at = offset

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        data = os.pread(self._sound.fd, size, self._at)
        self._at += len(data)
        if self._at > self._shown:  # what is put again, after a failure, was shown before
            self._progress(self._at - self._shown)
            self._shown = self._at
        self._pace.passed(len(data))
        return data
