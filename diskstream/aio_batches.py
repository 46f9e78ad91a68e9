"""What many tasks ask for meanwhile is done together, in one thread: for asyncio, where each would wait for the disk.

One batch at a time is in a thread; what tasks ask for as long as it is there is the next one. That is group commit, as
the engine has it for threads, without a thread for each task that waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

__all__ = ["Answers", "Batches"]

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")
# For each that was asked for, in order: what it gave, or the error that its own task is to see.
Answers: TypeAlias = Sequence[_Found | Exception]

# Of one batch, at most: as many appends take about as long as a flush does.
_MOST = 1024


class Batches(Generic[_Asked, _Found]):
    """What waits to be done. Its answers come in the order in which it was asked for.

    Args:
        do: does a batch, in a thread. An error that it raises is told to all of them.
    """

    def __init__(self, do: Callable[[list[_Asked]], Answers[_Found]]) -> None:
        self._do = do
        # Answers know their loop. So a queue is kept by what is under way in that, and by nothing that may outlive it.
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, ReferenceType[_Queue[_Asked, _Found]]]
        self._queues = WeakKeyDictionary()

    def ask(self, asked: _Asked) -> "asyncio.Future[_Found]":
        """Has it done; a future of the running loop. What is cancelled once it has begun may be done all the same."""
        loop = asyncio.get_running_loop()
        known = self._queues.get(loop)
        queue = None if known is None else known()
        if queue is None:
            queue = _Queue(self._do)
            self._queues[loop] = ref(queue)
        return queue.ask(asked)


class _Queue(Generic[_Asked, _Found]):
    """What waits in one loop. Its methods are called in the loop's thread alone, so nothing of it is locked."""

    def __init__(self, do: Callable[[list[_Asked]], Answers[_Found]]) -> None:
        self._do = do
        self._asked: list[_Asked] = []
        self._answers: list[asyncio.Future[_Found]] = []
        self._is_under_way = False

    def ask(self, asked: _Asked) -> "asyncio.Future[_Found]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Found] = loop.create_future()
        self._asked.append(asked)
        self._answers.append(answer)
        if not self._is_under_way:
            self._is_under_way = True
            # Not at once: the tasks that the last batch has woken, all of them, are about to ask as well.
            loop.call_soon(self._begin)
        return answer

    def _next(self) -> "tuple[list[_Asked], list[asyncio.Future[_Found]]]":
        """The next batch, without those whose task was cancelled: who ran out of time asks again, and has it once."""
        asked: list[_Asked] = []
        answers: list[asyncio.Future[_Found]] = []
        while self._asked and not asked:
            asked, self._asked = self._asked[:_MOST], self._asked[_MOST:]
            answers, self._answers = self._answers[:_MOST], self._answers[_MOST:]
            if any(answer.cancelled() for answer in answers):
                asked = [one for one, answer in zip(asked, answers, strict=True) if not answer.cancelled()]
                answers = [answer for answer in answers if not answer.cancelled()]
        return asked, answers

    def _begin(self) -> None:
        asked, answers = self._next()
        if not asked:
            self._is_under_way = False
            return
        try:
            running = asyncio.get_running_loop().run_in_executor(None, self._do, asked)
        except RuntimeError as error:  # the loop's threads are gone already
            answers += self._answers
            self._asked, self._answers, self._is_under_way = [], [], False
            _tell(answers, [error] * len(answers))
            return
        running.add_done_callback(partial(self._end, answers))

    def _end(self, answers: "list[asyncio.Future[_Found]]", running: "asyncio.Future[Answers[_Found]]") -> None:
        if self._asked:
            self._begin()  # before the tasks go on: the disk need not wait for them
        else:
            self._is_under_way = False
        if running.cancelled():
            for answer in answers:
                answer.cancel()
            return
        error = running.exception()
        _tell(answers, running.result() if error is None else [error] * len(answers))


def _tell(answers: "list[asyncio.Future[_Found]]", found: Sequence[_Found | BaseException]) -> None:
    for answer, each in zip(answers, found, strict=True):
        if answer.done():  # its task was cancelled
            continue
        if isinstance(each, BaseException):
            answer.set_exception(each)
        else:
            answer.set_result(each)
