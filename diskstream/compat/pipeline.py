"""Several commands in one go, as a transaction or not, with redis-py's WATCH."""

import contextlib
import textwrap
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self, TypeAlias

from diskstream.commands.caller import Caller
from diskstream.commands.replies import ErrorReply, Reply
from diskstream.commands.waiting import Waiting
from diskstream.compat.calling import Answer
from diskstream.compat.errors import ExecAbortError, RedisError, ResponseError, WatchError, error_of
from diskstream.compat.group_methods import GroupMethods
from diskstream.compat.key_methods import KeyMethods
from diskstream.compat.link import Link
from diskstream.compat.stream_methods import StreamMethods

__all__ = ["Pipeline", "Stack", "Steps", "next_wait"]

_Command = tuple[tuple[Any, ...], dict[str, Any]]
# An execution that hands out each wait, and is given its reply: who runs it chooses where it waits.
Steps: TypeAlias = Generator[Waiting, Reply | None, list[Any]]
_UNWATCHING = ("DISCARD", "EXEC", "UNWATCH")
_SHOWN = 100  # characters of a command in the text of its error


def next_wait(steps: Steps, reply: Reply | None) -> "Waiting | list[Any]":
    """Goes on with the reply of the last wait, None at first, to the next one or to what is returned at the end."""
    try:
        return steps.send(reply)
    except StopIteration as end:
        found: list[Any] = end.value
        return found


class Stack(StreamMethods, GroupMethods, KeyMethods):
    """Commands that are kept until `execute`: what the pipelines have in common. Not for several threads at once.

    Args:
        link: of the client.
        transaction: whether nobody sees the store between two of them.
    """

    def __init__(self, link: Link, *, transaction: bool) -> None:
        self._link, self.transaction = link, transaction
        self._clear()

    def _clear(self) -> None:
        self.command_stack: list[_Command] = []
        self._caller = self._link.new_caller()  # a new one watches nothing and is in no transaction
        self.watching = False
        self.explicit_transaction = False

    def _is_empty(self) -> bool:
        """Whether there is nothing to execute, and nothing watched to be checked."""
        return not (self.command_stack or self.watching)

    def __len__(self) -> int:
        return len(self.command_stack)

    def __bool__(self) -> bool:
        return True

    def multi(self) -> None:
        """Begins the transaction, after `watch` and what was looked at.

        Raises:
            RedisError: it has begun, or there are commands.
        """
        if self.explicit_transaction:
            raise RedisError("Cannot issue nested calls to MULTI")
        if self.command_stack:
            raise RedisError("Commands without an initial WATCH have already been issued")
        self.explicit_transaction = True

    def execute_command(self, *args: Any, **options: Any) -> Answer:
        """Keeps a command, and returns the pipeline; after `watch` and before `multi` executes it at once."""
        if (self.watching or args[0] == "WATCH") and not self.explicit_transaction:
            return self.immediate_execute_command(*args, **options)
        return self.pipeline_execute_command(*args, **options)

    def immediate_execute_command(self, *args: Any, **options: Any) -> Answer:
        """Executes a command at once."""
        raise NotImplementedError

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Self:
        """Keeps a command."""
        self.command_stack.append((args, options))
        return self

    def watch(self, *names: Any) -> Answer:
        """Watches keys: the transaction fails where one changes before it.

        Raises:
            RedisError: it has begun.
        """
        if self.explicit_transaction:
            raise RedisError("Cannot issue a WATCH after a MULTI")
        return self.execute_command("WATCH", *names)

    # --- what is executed, by whoever goes from step to step ----------------------------------------------------------

    def _done(self, reply: Reply, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What a command that was executed at once returns."""
        found = self._link.finish(reply, args[0], options)
        if args[0] in _UNWATCHING:
            self.watching = False
        elif args[0] == "WATCH":
            self.watching = True
        return found

    def _steps(self, raise_on_error: bool) -> Steps:
        """Executes what is kept now: who goes from step to step may be a thread that its task does not wait for."""
        whole = self.transaction or self.explicit_transaction
        return self._executed(self._caller, self.command_stack, whole=whole, raise_on_error=raise_on_error)

    def _executed(self, caller: Caller, stack: list[_Command], *, whole: bool, raise_on_error: bool) -> Steps:
        words = [self._link.words(args) for args, _ in stack]  # what cannot be sent is refused before anything runs
        if whole:
            found = self._transaction(caller, words, stack)
        else:
            found = yield from self._each(caller, words, stack)
        if raise_on_error:
            for number, (one, (args, _)) in enumerate(zip(found, stack, strict=True), 1):
                if isinstance(one, ResponseError):
                    raise _annotated(one, number, args)
        return [
            one if isinstance(one, RedisError) else self._link.shape(one, args[0], options)
            for one, (args, options) in zip(found, stack, strict=True)
        ]

    def _each(self, caller: Caller, commands: list[list[bytes]], stack: list[_Command]) -> Steps:
        found: list[Any] = []
        failed: Exception | None = None
        for reply, (args, options) in zip(self._link.run_each(caller, commands), stack, strict=True):
            answered = (yield reply) if isinstance(reply, Waiting) else reply
            if failed is not None:
                continue  # redis-py has sent all of them by the time it reads a reply, and reads none behind this one
            try:
                one = self._link.parse(answered, args[0], options)
            except ValueError as error:  # no text in the client's encoding
                failed = error
                continue
            if isinstance(one, RedisError) and not isinstance(one, ResponseError):
                failed = one
            found.append(one)
        if failed is not None:
            raise failed
        return found

    def _transaction(self, caller: Caller, commands: list[list[bytes]], stack: list[_Command]) -> list[Any]:
        self._link.run(caller, [b"MULTI"])
        refused = None
        for number, (words, (args, _)) in enumerate(zip(commands, stack, strict=True), 1):
            queued = self._link.run(caller, words)
            if isinstance(queued, ErrorReply) and refused is None:
                refused = _annotated(error_of(queued), number, args)
        replies = self._link.run(caller, [b"EXEC"])
        if isinstance(replies, ErrorReply):
            error = error_of(replies)
            raise refused if refused is not None and isinstance(error, ExecAbortError) else error
        if not isinstance(replies, list | tuple):
            raise WatchError("Watched variable changed.")
        if len(replies) != len(commands):
            raise ResponseError("Wrong number of response items from pipeline execution")
        return [
            self._link.parse(reply, args[0], options) for reply, (args, options) in zip(replies, stack, strict=True)
        ]


def _annotated(error: RedisError, number: int, args: tuple[Any, ...]) -> RedisError:
    command = " ".join(arg.decode("utf-8", "replace") if isinstance(arg, bytes) else str(arg) for arg in args)
    shown = textwrap.shorten(command, width=_SHOWN, placeholder="...")
    error.args = (f"Command # {number} ({shown}) of pipeline caused error: {error.args[0]}", *error.args[1:])
    return error


class Pipeline(Stack):
    """Commands for one go: methods return the pipeline, `execute` the list of their replies."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.reset()

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Executes a command at once.

        Raises:
            RedisError: it was refused.
        """
        link = self._link
        return self._done(link.answer(link.run(self._caller, link.words(args))), args, options)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Executes what was kept.

        Args:
            raise_on_error: raises the first error; else errors are in the list.

        Raises:
            WatchError: a watched key changed; nothing was executed.
            ResponseError: a command was refused.
        """
        if self._is_empty():
            return []
        reply: Reply | None = None
        try:
            with contextlib.closing(self._steps(raise_on_error)) as steps:
                while isinstance(found := next_wait(steps, reply), Waiting):
                    reply = self._link.answer(found)
                return found
        finally:
            self._clear()

    def unwatch(self) -> bool:
        """Watches nothing any more."""
        return bool((self.watching and self.execute_command("UNWATCH")) or True)

    def discard(self) -> None:
        """Keeps nothing of what was kept."""
        self.execute_command("DISCARD")

    def reset(self) -> None:
        """Forgets everything."""
        self._clear()

    close = reset
