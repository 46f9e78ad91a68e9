"""The same for asyncio: redis-py's ``redis.asyncio`` over a store in this process.

::

    async with diskstream.compat.aio.Redis("data") as client:
        await client.xadd("race:france", {"rider": "Castilla"})
"""

import asyncio
import contextlib
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Self

from diskstream.aio_batches import Batches
from diskstream.aio_waits import waited
from diskstream.commands.alike import has_kin
from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply
from diskstream.commands.waiting import Waiting
from diskstream.compat.errors import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004  # its name in redis-py
    DataError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004  # its name in redis-py
    WatchError,
)
from diskstream.compat.group_methods import GroupMethods
from diskstream.compat.key_methods import KeyMethods
from diskstream.compat.link import Link
from diskstream.compat.opening import Opened
from diskstream.compat.pipeline import Stack, next_wait
from diskstream.compat.stream_methods import StreamMethods

__all__ = [
    "AuthenticationError",
    "BusyLoadingError",
    "ConnectionError",
    "DataError",
    "OutOfMemoryError",
    "Pipeline",
    "ReadOnlyError",
    "Redis",
    "RedisError",
    "ResponseError",
    "TimeoutError",
    "WatchError",
    "from_url",
]

# Calls of one client that may wait at once.
_MOST_WAITING = 10_000


class _Waits:
    """A client's calls that wait: they have none of the threads of `asyncio.to_thread`, of which there are few."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0

    async def answer(self, caller: Caller, found: Reply | Waiting) -> Reply:
        """The reply of a command, waited for where it waits.

        Raises:
            ConnectionError: too many wait.
        """
        if not isinstance(found, Waiting):
            return found
        if self._count >= _MOST_WAITING:
            raise ConnectionError(f"Too many connections: {_MOST_WAITING} calls of this client wait already")
        self._count += 1
        try:
            return await self._link.answer_task(caller, found)
        finally:
            self._count -= 1


class Redis(Opened, StreamMethods, GroupMethods, KeyMethods):
    """`diskstream.compat.Redis` with methods to be awaited."""

    def __init__(self, path: str | os.PathLike[str], db: int = 0, **options: Any) -> None:
        super().__init__(path, db, **options)
        self._waits = _Waits(self._link)
        self._free: list[Caller] = []
        self._alike: Batches[tuple[Caller, list[bytes]], Reply | Waiting] = Batches(self._link.run_alike)

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: ARG002  # redis-py's
        """Lets go of the directory: also where the task that waits for it is cancelled. Twice is fine.

        There is no pool of connections, so `close_connection_pool` says nothing.
        """
        await waited(self._link.close, must_be_done=True)  # a thread of `to_thread` may never begin it then

    close = aclose

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Executes any command. Returns its reply in redis-py's shape.

        Raises:
            RedisError: it was refused.
        """
        link, words = self._link, self._link.words(args)
        if has_kin(words):  # what tasks add or acknowledge meanwhile shares a thread, a frame and its flush
            caller = self._take_caller()
            found = await self._alike.ask((caller, words))
        else:
            caller, found = await asyncio.to_thread(self._begin, words)
        reply = await self._waits.answer(caller, found)
        # Not where the task was cancelled: then a thread may still be in the middle of a command of this caller.
        self._free.append(caller)
        return link.finish(reply, args[0], options)

    def _begin(self, words: list[bytes]) -> "tuple[Caller, Reply | Waiting]":
        caller = self._take_caller()
        return caller, self._link.run(caller, words)

    def _take_caller(self) -> Caller:
        """A caller for a command, as redis-py takes a connection from its pool.

        It is the one that was free last: commands that come one after the other have the same, and with it what SELECT
        or MULTI said.
        """
        try:
            return self._free.pop()
        except IndexError:
            return self._link.new_caller()

    async def scan_iter(
        self, match: Any = None, count: int | None = None, _type: str | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """All keys, one after the other."""
        cursor: Any = "0"
        while cursor != 0:
            cursor, names = await self.scan(cursor, match=match, count=count, _type=_type, **kwargs)
            for name in names:
                yield name

    def pipeline(self, transaction: bool = True, shard_hint: object = None) -> "Pipeline":  # noqa: ARG002  # redis-py's
        """Several commands in one go: see `Pipeline`."""
        return Pipeline(self, transaction=transaction)

    async def transaction(
        self,
        func: "Callable[[Pipeline], Any | Awaitable[Any]]",
        *watches: Any,
        shard_hint: str | None = None,
        value_from_callable: bool = False,
        watch_delay: float | None = None,
    ) -> Any:
        """Calls `func` with a pipeline that watches keys: see `diskstream.compat.Redis.transaction`."""
        async with self.pipeline(transaction=True, shard_hint=shard_hint) as pipe:
            while True:
                try:
                    if watches:
                        await pipe.watch(*watches)
                    value = func(pipe)
                    if inspect.isawaitable(value):
                        value = await value
                    replies = await pipe.execute()
                except WatchError:
                    await asyncio.sleep(watch_delay or 0)
                    continue
                return value if value_from_callable else replies


class Pipeline(Stack):
    """Commands for one go: methods return the pipeline, `execute` is awaited for the list of their replies."""

    def __init__(self, client: Redis, *, transaction: bool) -> None:
        super().__init__(client._link, transaction=transaction)
        self._waits = client._waits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.reset()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Executes a command at once.

        Raises:
            RedisError: it was refused.
        """
        found = await asyncio.to_thread(self._link.run, self._caller, self._link.words(args))
        return self._done(await self._waits.answer(self._caller, found), args, options)

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Executes what was kept: see `diskstream.compat.Pipeline.execute`."""
        if self._is_empty():
            return []
        steps = self._steps(raise_on_error)
        reply: Reply | None = None
        try:
            while isinstance(found := await asyncio.to_thread(next_wait, steps, reply), Waiting):
                reply = await self._waits.answer(self._caller, found)
            return found
        finally:
            with contextlib.suppress(ValueError):  # the task was cancelled, and a thread still is within: it ends it
                steps.close()
            self._clear()  # here, not in that thread: what it executes is neither kept on, nor mixed with what comes

    async def unwatch(self) -> bool:
        """Watches nothing any more."""
        if self.watching:
            await self.execute_command("UNWATCH")
        return True

    async def discard(self) -> None:
        """Keeps nothing of what was kept."""
        await self.execute_command("DISCARD")

    async def reset(self) -> None:
        """Forgets everything."""
        self._clear()

    aclose = reset


from_url = Redis.from_url
