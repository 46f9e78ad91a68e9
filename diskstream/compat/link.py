"""What a client, a pipeline and their counterparts for asyncio have in common: words in, shaped replies out."""

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any, TypeAlias

from diskstream import EntryID
from diskstream.commands.adding_together import add_together, adds_from
from diskstream.commands.alike import Kin, kin_of, run_alike
from diskstream.commands.all_commands import table
from diskstream.commands.arguments import as_small_int
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.keyspace import DATABASES
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from diskstream.compat.aio_waiting import Blocked
from diskstream.compat.errors import (
    ConnectionError,  # noqa: A004  # its name in redis-py
    DataError,
    RedisError,
    ResponseError,
)
from diskstream.compat.shapes import RESP3, Decode, Shape, parsed, shapes_for
from diskstream.compat.sharing import OPEN
from diskstream.compat.waiting import wait

__all__ = ["NEVER_DECODE", "Commands", "Dispatch", "Link"]

Dispatch: TypeAlias = Callable[[Table, Caller, list[bytes]], "Reply | Waiting"]
Commands: TypeAlias = tuple[Dispatch, Table]
# The option of redis-py's methods whose reply is bytes whatever the client decodes (DUMP).
NEVER_DECODE = "NEVER_DECODE"


def _database(db: object) -> int:
    """The number of a database, also in digits, as SELECT takes it; None is 0, as with redis-py.

    Raises:
        ResponseError: there is none of that number, or it is no number. A list's index of -1 would be the last.
    """
    try:
        number = as_small_int(b"0" if db is None else str(db).encode("utf-8", "replace"))
    except Failure as failure:
        raise ResponseError(f"{failure.text.decode().removeprefix('ERR ')}: db is {db!r}") from None
    if not 0 <= number < DATABASES:
        raise ResponseError(f"DB index is out of range: {number} is none of 0 to {DATABASES - 1}")
    return number


class Link:
    """A keyspace as one client sees it. Safe under threads: each has a caller of its own.

    Args:
        path: the directory.
        db: the number of the database.
        protocol: 2, 3, or None for the shapes of 2 with what only 3 tells, as redis-py's default is.
        legacy_responses: as with redis-py.
        decode_responses: strings come out as str.
        encoding, encoding_errors: of str.
        options: how the store is opened.
        commands: other commands than diskstream's own; for tests.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        db: int,
        protocol: int | None,
        legacy_responses: bool,
        decode_responses: bool,
        encoding: str,
        encoding_errors: str,
        options: dict[str, Any],
        commands: Commands | None = None,
    ) -> None:
        if protocol not in (None, 2, 3):
            raise ConnectionError("protocol must be either 2 or 3")
        self.path, self.database = path, _database(db)
        self._wire = protocol or RESP3
        self._shapes = shapes_for(protocol, legacy=legacy_responses)
        self.encoding, self.encoding_errors = encoding, encoding_errors
        text = functools.partial(str, encoding=encoding, errors=encoding_errors)
        self._decode: Decode = text if decode_responses else bytes
        self._dispatch, self._table = commands or (dispatch, table())
        self._own = threading.local()
        self._shared = OPEN.take(path, options)
        self._give_back = weakref.finalize(self, OPEN.give_back, self._shared)

    def close(self) -> None:
        """Lets go of the keyspace. Closing twice is fine.

        Raises:
            RedisError: a signal handler closes it in the middle of a command of its thread.
        """
        self._shared.turns.outside()
        self._give_back()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._give_back.alive

    def new_caller(self) -> Caller:
        """A caller with a state of its own: a database, watched keys, a transaction."""
        return Caller(self._shared.keyspace, database=self.database, protocol=self._wire)

    def caller(self) -> Caller:
        """This thread's caller."""
        found: Caller | None = getattr(self._own, "caller", None)
        if found is None:
            found = self._own.caller = self.new_caller()
        return found

    # --- words --------------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> bytes:
        """A word as bytes.

        Raises:
            DataError: it is of a type that says nothing of its bytes.
        """
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode(self.encoding, self.encoding_errors)
        if isinstance(value, bytearray | memoryview | EntryID):
            return bytes(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return b"%d" % value
        if isinstance(value, float):
            return float.__repr__(value).encode()
        kind = type(value).__name__
        raise DataError(f"Invalid input of type: '{kind}'. Convert to a bytes, string, int or float first.")

    def words(self, args: tuple[Any, ...]) -> list[bytes]:
        """A command as bytes; its name may be two words, as ``XGROUP CREATE``."""
        name = self.encode(args[0])
        names = name.split() if isinstance(args[0], str) or b" " in name else [name]
        # Of no word at all Redis takes no notice, and redis-py waits for its answer: it is what an empty name is.
        return [*names, *map(self.encode, args[1:])] or [b""]

    # --- calls --------------------------------------------------------------------------------------------------------

    def run(self, caller: Caller, words: list[bytes]) -> "Reply | Waiting":
        """Runs a command; one that waits says so.

        Raises:
            ConnectionError: the client is closed.
        """
        self._check_open()
        turn = self._shared.turns.alone if words[0].upper() == b"EXEC" else self._shared.turns.shared
        with turn():
            return self._dispatch(self._table, caller, words)

    def run_each(self, caller: Caller, commands: list[list[bytes]]) -> "Iterator[Reply | Waiting]":
        """Runs the commands of a pipeline, each when the one before was answered; plain XADDs in a row are one frame.

        Raises:
            ConnectionError: the client is closed.
        """
        at = 0
        while at < len(commands):
            count = adds_from(commands, at)
            replies = self._add_together(caller, commands[at : at + count]) if count > 1 else None
            if replies is None:
                yield self.run(caller, commands[at])
                at += 1
            else:
                yield from replies
                at += count

    def run_alike(self, asked: list[tuple[Caller, list[bytes]]]) -> "list[Reply | Waiting | Exception]":
        """Runs commands of several callers; those in a row that are alike are one.

        Returns:
            The replies, and where a command was not run the error.
        """
        found: list[Reply | Waiting | Exception] = []
        for kin, same in groupby(asked, lambda each: kin_of(*each)):
            given = list(same)
            together = None if kin is None else self._run_together(kin, given)
            found += together or [self._run_alone(caller, words) for caller, words in given]
        return found

    def _run_together(self, kin: Kin, given: list[tuple[Caller, list[bytes]]]) -> list[Reply] | None:
        if len(given) == 1 or self.closed:
            return None
        try:
            with self._shared.turn():
                return run_alike(kin, given[0][0], [words for _, words in given])
        except Exception:  # noqa: BLE001  # each meets its own error, and none of others that have their answers
            return None

    def _run_alone(self, caller: Caller, words: list[bytes]) -> "Reply | Waiting | Exception":
        try:
            return self.run(caller, words)
        except Exception as error:  # noqa: BLE001  # raised again in the task that asked
            return error

    def _add_together(self, caller: Caller, commands: list[list[bytes]]) -> list[Reply] | None:
        if self.closed:
            return None
        with self._shared.turn():
            return add_together(caller, commands)

    def answer(self, found: "Reply | Waiting") -> Reply:
        """The reply, waited for where the command waits.

        Raises:
            ConnectionError: the client was closed meanwhile.
        """
        if not isinstance(found, Waiting):
            return found
        reply = wait(self._shared.keyspace, found, self._turn)
        if isinstance(reply, ErrorReply):
            self._check_open()  # the error is that of a store that is closed
        return reply

    async def answer_task(self, caller: Caller, waiting: Waiting) -> Reply:
        """The reply of a command that waits, for a task of asyncio. A task that is cancelled leaves nothing behind.

        Raises:
            ConnectionError: the client was closed meanwhile.
        """
        blocked = Blocked(caller, waiting, lambda: self.closed)
        self._shared.waits.hand_over(blocked)
        reply: Reply = await blocked.answer
        if reply is waiting.otherwise or isinstance(reply, ErrorReply):
            self._check_open()
        return reply

    def _turn(self) -> AbstractContextManager[None]:
        """For a look of a command that waits: it ends with the client, though others have the directory open."""
        self._check_open()
        return self._shared.turn()

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionError(f"the client of {os.fspath(self.path)} is closed")

    def parse(self, reply: Reply, name: Any, options: Mapping[str, Any]) -> Any:
        """A reply as redis-py's parser gives it, ready for `shape`; an error is an exception, not raised."""
        for_shape = self._shape_of(name) is not None
        return parsed(reply, self._wire, bytes if NEVER_DECODE in options else self._decode, for_shape=for_shape)

    def shape(self, found: Any, name: Any, options: Mapping[str, Any]) -> Any:
        """What was parsed as redis-py's methods return it."""
        shape = self._shape_of(name)
        return found if shape is None else shape(found, options)

    def finish(self, reply: Reply, name: Any, options: Mapping[str, Any]) -> Any:
        """A reply as redis-py's methods return it.

        Raises:
            RedisError: it is an error.
        """
        found = self.parse(reply, name, options)
        if isinstance(found, RedisError):
            raise found
        return self.shape(found, name, options)

    def _shape_of(self, name: Any) -> Shape | None:
        return self._shapes.get(name.upper()) if isinstance(name, str) else None
