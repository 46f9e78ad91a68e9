"""Where clients are made: of compat over a store, of redis-py over a server."""

import threading
import time
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from diskstream import compat
from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from diskstream.compat.link import Commands, Dispatch

# Both sides use databases other than 0, so that those work too; a Redis server keeps other tests' keys elsewhere.
DATABASE = 3


class Backend:
    """Where clients of both kinds are made.

    Attributes:
        name: ``compat``, ``redis`` or ``server``.
    """

    name = ""

    def __init__(self) -> None:
        self._opened: list[Any] = []

    def client(self, **options: Any) -> Any:
        """A client; closed with the test."""
        made = self._client(db=options.pop("db", DATABASE), **options)
        self._opened.append(made)
        return made

    def aio(self, **options: Any) -> Any:
        """One for asyncio, for the test to close."""
        return self._aio(db=options.pop("db", DATABASE), **options)

    def until_one_waits(self) -> None:
        """Returns once a client waits."""
        raise NotImplementedError

    def _client(self, **options: Any) -> Any:
        raise NotImplementedError

    def _aio(self, **options: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        for client in self._opened:
            client.close()


class Compat(Backend):
    name = "compat"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.options: dict[str, Any] = {"fsync": "os"}
        self._waits = threading.Semaphore(0)
        self.options["commands"] = self._noticed(dispatch, table())

    def _noticed(self, dispatch: Dispatch, table: Table) -> Commands:
        """The same commands; tells of each wait that begins."""

        def notice(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
            found = dispatch(table, caller, words)
            if isinstance(found, Waiting):
                self._waits.release()
            return found

        return notice, table

    def until_one_waits(self) -> None:
        assert self._waits.acquire(timeout=20)

    def _client(self, **options: Any) -> Any:
        return compat.Redis(self.path, **self.options, **options)

    def _aio(self, **options: Any) -> Any:
        return compat.aio.Redis(self.path, **self.options, **options)


class OverSocket(Backend):
    """redis-py and a server."""

    def __init__(self, name: str, **address: Any) -> None:
        super().__init__()
        self.name, self._address = name, address
        self.client().flushdb()

    def until_one_waits(self) -> None:
        client, until = self.client(), time.monotonic() + 20
        while client.info("clients")["blocked_clients"] == 0:
            assert time.monotonic() < until

    def _client(self, **options: Any) -> Any:
        return redis.Redis(**self._address, **options)

    def _aio(self, **options: Any) -> Any:
        return redis.asyncio.Redis(**self._address, **options)
