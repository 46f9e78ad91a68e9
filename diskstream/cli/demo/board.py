"""The words of memory that the processes of the demo share.

Every word has one writer, and there are no locks: a process that is killed must not take one with it.
"""

from __future__ import annotations

import os
from enum import IntEnum
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext

from diskstream.cli.telemetry import ALL

STREAMS = tuple(telemetry.name for telemetry in ALL)


class Word(IntEnum):
    """What is counted for each stream."""

    APPENDED = 0  # entries whose append returned
    ACKNOWLEDGED = 1  # the number that the last of them carries
    PENDING = 2  # entries of the append that is under way, 0 between appends
    APPEND_NS = 3  # time spent in appends
    TAILED = 4  # entries that the tailing process has seen
    RANGED = 5  # entries that the ranging process has seen


class Board:
    """A counter for each stream and `Word`, and two flags. Passed to processes as they are started."""

    def __init__(self, context: SpawnContext) -> None:
        self._words = context.RawArray("Q", len(STREAMS) * len(Word) + 2)

    def get(self, stream: str, word: Word) -> int:
        """The word of a stream."""
        return int(self._words[self._index(stream, word)])

    def set(self, stream: str, word: Word, value: int) -> None:
        """Set the word of a stream."""
        self._words[self._index(stream, word)] = value

    def add(self, stream: str, word: Word, value: int) -> None:
        """Add to the word of a stream; only its one writer does."""
        self._words[self._index(stream, word)] += value

    def total(self, word: Word) -> int:
        """The sum over all streams."""
        return sum(self.get(stream, word) for stream in STREAMS)

    @property
    def producers_stop(self) -> bool:
        """Whether producers are to end."""
        return bool(self._words[-2]) or _is_orphan()

    @producers_stop.setter
    def producers_stop(self, value: bool) -> None:
        self._words[-2] = value

    @property
    def readers_stop(self) -> bool:
        """Whether readers are to end once they have seen everything."""
        return bool(self._words[-1]) or _is_orphan()

    @readers_stop.setter
    def readers_stop(self, value: bool) -> None:
        self._words[-1] = value

    @staticmethod
    def _index(stream: str, word: Word) -> int:
        return STREAMS.index(stream) * len(Word) + word


def _is_orphan() -> bool:
    """Whether the demo itself was killed. Its processes must not go on and fill the disk."""
    parent = parent_process()
    return parent is not None and os.getppid() != parent.pid
