"""Runs of commands for one group that stand behind each other in a turn, of one client or several."""

from diskstream.commands.wire import CommandRun
from diskstream.server.connection import Connection

__all__ = ["Kindred"]


class Kindred:
    """Gathers runs of one kind, for one group, in the order in which they came.

    Args:
        most: what their totals (of IDs, or of entries) may come to before no more are taken.

    Attributes:
        database: where the group is.
        runs: what was taken, and whose it is.
        commands: how many there are in these.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.database = -1
        self.runs: list[tuple[Connection, CommandRun]] = []
        self._total = self.commands = 0

    def take(self, connection: Connection, run: CommandRun) -> bool:
        """Takes a run. False where it is for another group, or there is no more room."""
        database = connection.caller.database
        if self.runs and (database != self.database or self._total >= self._most or not run.is_kin(self.runs[0][1])):
            return False
        self.database = database
        self.runs.append((connection, run))
        self._total += run.total
        self.commands += len(run)
        return True

    def empty(self) -> list[tuple[Connection, CommandRun]]:
        """Gives up what was taken."""
        given, self.runs, self._total, self.commands = self.runs, [], 0, 0
        return given
