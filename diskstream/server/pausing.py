"""CLIENT PAUSE: until when commands, or those that write, are held back, and whom that holds."""

from collections.abc import Callable

from diskstream.commands.table import Command
from diskstream.server.connection import Connection

__all__ = ["Pause"]


class Pause:
    """The pause under way, if there is one.

    Args:
        command: what is to be run by some words; None where there is no such command.

    Attributes:
        until: when it ends, by `time.monotonic`; 0 where there is none.
    """

    def __init__(self, command: Callable[[list[bytes]], Command | None]) -> None:
        self._command = command
        self.until, self._writes_only = 0.0, False
        self._held: dict[Connection, None] = {}  # in the order in which they were held back

    def begin(self, until: float, now: float, *, writes_only: bool) -> None:
        """Pauses, as `Host.pause`: one that lasts longer goes on for as long, and one of all commands stays that."""
        if until > 0 and self.until > now:
            until, writes_only = max(until, self.until), writes_only and self._writes_only
        self.until, self._writes_only = max(until, 1e-9), writes_only  # 0 would be no pause at all

    def holds(self, connection: Connection, words: list[bytes]) -> bool:
        """Keeps a command with its client where it must not run now; else False."""
        if not self.until or not self._is_held(connection, words):
            return False
        connection.paused = True
        connection.pending.append(words)
        self._held[connection] = None
        return True

    def end(self, now: float) -> list[Connection]:
        """Those whom it held back, once it is over; nobody before."""
        if not self.until or self.until > now:
            return []
        self.until = 0.0
        held, self._held = self._held, {}
        for connection in held:
            connection.paused, connection.caller.last_used = False, now
        return list(held)

    def forget(self, connection: Connection) -> None:
        """Forgets a client that is gone: a pause may last for weeks, and clients come and go."""
        self._held.pop(connection, None)

    def _is_held(self, connection: Connection, words: list[bytes]) -> bool:
        if not self._writes_only:
            return True
        transaction = connection.caller.transaction
        if transaction is not None and words[0].lower() == b"exec":
            return any(self._writes(queued) for queued in transaction.queue)
        return self._writes(words)  # in a transaction too, where it would only be queued: as Redis does

    def _writes(self, words: list[bytes]) -> bool:
        command = self._command(words)
        return command is not None and "write" in command.flags
