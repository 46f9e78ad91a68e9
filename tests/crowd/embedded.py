"""A stream as redis-py's methods have it without a server: `diskstream.compat`, and the same with asyncio."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from diskstream.compat import Redis
from diskstream.compat.aio import Redis as AioRedis
from tests.crowd.served import Word

__all__ = ["AioLine", "CompatLine"]


class CompatLine:
    """Asks the store in this process."""

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self._client = Redis(str(path), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def ask(self, *words: Word) -> Any:
        """The reply to a command, in the shape that a server gives it."""
        return _as_sent(words, self._client.execute_command(*words, **_options_of(words)))

    def ask_all(self, commands: Iterable[Sequence[Word]]) -> list[Any]:
        """The replies to some, one after the other."""
        return [self.ask(*words) for words in commands]


class AioLine:
    """The same by tasks: who is interrupted has his task cancelled."""

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self._runner = asyncio.Runner()
        self._client = AioRedis(str(path), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._runner:
            self._runner.run(self._client.aclose())

    def ask(self, *words: Word) -> Any:
        """The reply to a command, in the shape that a server gives it."""
        return self.ask_all([words])[0]

    def ask_all(self, commands: Iterable[Sequence[Word]]) -> list[Any]:
        """The replies to some, one after the other."""

        async def each() -> list[Any]:
            found = []
            for words in commands:
                reply: Awaitable[Any] = self._client.execute_command(*words, **_options_of(words))
                found.append(_as_sent(words, await reply))
            return found

        return self._runner.run(each())


def _options_of(words: Sequence[Word]) -> dict[str, bool]:
    """How redis-py is told which of two replies comes."""
    return {"parse_detail": True} if words[0] == "XPENDING" else {}


def _as_sent(words: Sequence[Word], reply: Any) -> Any:
    match words[0]:
        case "XRANGE" | "XREVRANGE" | "XCLAIM":
            return _rows(reply)
        case "XREAD" | "XREADGROUP":
            return [[name, _rows(rows)] for name, rows in reply] or None
        case "XAUTOCLAIM":
            return [reply[0], _rows(reply[1]), reply[2]]
        case "XPENDING":
            return [[row["message_id"]] for row in reply]
    return reply


def _rows(shaped: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> list[list[Any]]:
    """Each an ID and its fields; None for those of an entry that is gone. How often it was delivered is not told."""
    return [[entry_id, [word for pair in row.items() for word in pair] or None] for entry_id, row in shaped]
