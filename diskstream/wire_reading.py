"""What a stream answers to pipelines of XRANGE, as it goes over the wire."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from diskstream._native import Block, CommandRun, EntryID
from diskstream.engine import reader
from diskstream.engine.log import StreamLog

__all__ = ["WireReading"]

_T = TypeVar("_T")
# Replies that are given at once, about: what is beyond is left for the next call.
_BYTES_AT_ONCE = 256 << 10
_NO_ENTRIES = b"*0\r\n"


class WireReading:
    """The part of `Stream` that answers reads as they came over the wire."""

    if TYPE_CHECKING:

        def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T: ...

    def range_run(self, run: CommandRun, done: int = 0) -> tuple[bytes, int]:
        """Answers a run of XRANGE, from the command behind the first `done` on, as of now.

        Returns:
            The replies, and how many of the run's commands are answered now: one more at least.

        Raises:
            CorruptionError: something within a range cannot be read.
        """
        ranges = run.ranges()[done:]
        replies = self._use(lambda log: _replies(log, ranges), [_NO_ENTRIES] * len(ranges))
        return b"".join(replies), done + len(replies)


def _replies(log: StreamLog, ranges: list[tuple[EntryID, EntryID, int]]) -> list[bytes]:
    replies: list[bytes] = []
    size = 0
    before: tuple[EntryID, EntryID, int] | None = None
    reply = b""
    for each in ranges:
        if each != before:  # what is asked for twice is read once
            before, reply = each, _reply(log, *each)
        replies.append(reply)
        size += len(reply)
        if size >= _BYTES_AT_ONCE:
            break
    return replies


def _reply(log: StreamLog, start: EntryID, end: EntryID, count: int) -> bytes:
    blocks: list[Block] = []
    left = count
    for block in reader.blocks(log, start, end, enough=count):
        blocks.append(block)
        left -= len(block)
        if left <= 0:
            break
    return Block.reply(blocks, count)
