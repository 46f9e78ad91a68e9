"""`Redis`: redis-py's client over a store in this process."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from diskstream.compat.errors import WatchError
from diskstream.compat.group_methods import GroupMethods
from diskstream.compat.key_methods import ScanMethods
from diskstream.compat.opening import Opened
from diskstream.compat.pipeline import Pipeline
from diskstream.compat.stream_methods import StreamMethods

__all__ = ["Redis"]


class Redis(Opened, StreamMethods, GroupMethods, ScanMethods):
    """redis-py's client over a store in this process, with no server. Safe under threads; pipelines are not.

    ::

        client = diskstream.compat.Redis("data", decode_responses=True)
        client.xadd("race:france", {"rider": "Castilla"})
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the directory; makes all durable where no other client of this process has it. Twice is fine."""
        self._link.close()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Executes any command. Returns its reply in redis-py's shape.

        Raises:
            RedisError: it was refused.
        """
        link = self._link
        return link.finish(link.answer(link.run(link.caller(), link.words(args))), args[0], options)

    def pipeline(self, transaction: bool = True, shard_hint: object = None) -> Pipeline:  # noqa: ARG002  # redis-py's
        """Several commands in one go: see `Pipeline`."""
        return Pipeline(self._link, transaction=transaction)

    def transaction(self, func: Callable[[Pipeline], Any], *watches: Any, **kwargs: Any) -> Any:
        """Calls `func` with a pipeline that watches keys, and executes it; again for as long as one of them changes.

        Args:
            func: looks, calls `multi`, and gives the commands.
            watches: the keys.
            kwargs: `value_from_callable`: return what `func` returned; `watch_delay`: seconds before the next attempt.

        Returns:
            The replies.
        """
        value_from_callable, watch_delay = kwargs.pop("value_from_callable", False), kwargs.pop("watch_delay", None)
        with self.pipeline(transaction=True, shard_hint=kwargs.pop("shard_hint", None)) as pipe:
            while True:
                try:
                    if watches:
                        pipe.watch(*watches)
                    value = func(pipe)
                    replies = pipe.execute()
                except WatchError:
                    time.sleep(watch_delay or 0)
                    continue
                return value if value_from_callable else replies
