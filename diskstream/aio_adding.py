"""Adding for asyncio where each entry waits for the disk: the adds of many tasks share a frame and its flush.

One batch at a time is in a thread; what tasks add meanwhile is the next one. That is group commit, as the engine has it
for threads, without a thread for each task that waits.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from diskstream._native import EntryID, check_rows
from diskstream.errors import StorageError
from diskstream.stream import Fields, Stream

__all__ = ["Adding"]

# Entries of one batch, at most: about as many as one write takes in the time of a flush.
_MAX_ROWS = 1024

_Answer = asyncio.Future[EntryID]


class Adding:
    """Entries that wait to be added to one stream, with automatic IDs."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        # A store may outlive a loop, and the answers that its end left behind.
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()

    def add(self, fields: Fields) -> _Answer:
        """Adds one entry; the ID, or the error, comes when it is durable. In the order of the calls.

        An add that is cancelled may have been made all the same.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue(self._stream)
        return queue.add(fields)


class _Queue:
    """What waits in one loop. Its methods are called in the loop's thread alone, so nothing of it is locked."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rows: list[Fields] = []
        self._answers: list[_Answer] = []
        self._is_under_way = False

    def add(self, fields: Fields) -> _Answer:
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._rows.append(list(fields) if isinstance(fields, Iterator) else fields)  # a row may be packed twice
        self._answers.append(answer)
        if not self._is_under_way:
            self._is_under_way = True
            # Not at once: the tasks that the last batch has woken, all of them, are about to add as well.
            asyncio.get_running_loop().call_soon(self._begin)
        return answer

    def _begin(self) -> None:
        rows, self._rows = self._rows[:_MAX_ROWS], self._rows[_MAX_ROWS:]
        answers, self._answers = self._answers[:_MAX_ROWS], self._answers[_MAX_ROWS:]
        try:
            running = asyncio.get_running_loop().run_in_executor(None, _added, self._stream, rows)
        except RuntimeError as error:  # the loop's threads are gone already
            answers += self._answers
            self._rows, self._answers, self._is_under_way = [], [], False
            _tell(answers, [error] * len(answers))
            return
        running.add_done_callback(partial(self._end, answers))

    def _end(self, answers: list[_Answer], running: "asyncio.Future[Sequence[EntryID | Exception]]") -> None:
        if self._rows:
            self._begin()  # before the tasks go on: the disk need not wait for them
        else:
            self._is_under_way = False
        if running.cancelled():
            for answer in answers:
                answer.cancel()
            return
        error = running.exception()
        _tell(answers, running.result() if error is None else [error] * len(answers))


def _tell(answers: list[_Answer], found: "Sequence[EntryID | BaseException]") -> None:
    for answer, each in zip(answers, found, strict=True):
        if answer.done():  # its task was cancelled
            continue
        if isinstance(each, BaseException):
            answer.set_exception(each)
        else:
            answer.set_result(each)


def _added(stream: Stream, rows: list[Fields]) -> "Sequence[EntryID | Exception]":
    """The ID of each row, or why it was not added."""
    if len(rows) > 1:
        try:
            return stream.add_many(rows, durable=True)
        except StorageError as error:
            return [error] * len(rows)
        except Exception:  # noqa: BLE001  # nothing was added: it is one row's fault, or they are too large together
            faults = [_fault(row) for row in rows]
            sound = [row for row, fault in zip(rows, faults, strict=True) if fault is None]
            if sound and len(sound) < len(rows):
                added = iter(_added(stream, sound))
                return [next(added) if fault is None else fault for fault in faults]
    return [_added_alone(stream, row) for row in rows]


def _fault(row: Fields) -> Exception | None:
    try:
        check_rows([row])
    except Exception as error:  # noqa: BLE001  # raised again in the task that adds
        return error
    return None


def _added_alone(stream: Stream, row: Fields) -> EntryID | Exception:
    try:
        return stream.add(row, durable=True)
    except Exception as error:  # noqa: BLE001  # raised again in the task that adds
        return error
