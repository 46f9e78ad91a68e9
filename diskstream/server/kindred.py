"""Runs of commands for one place that stand behind each other in a turn, of one client or several."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from diskstream.commands.replies import Raw, Reply
from diskstream.commands.wire import AddRun, CommandRun, encode
from diskstream.server.connection import Connection

__all__ = ["Answers", "Kindred", "OneByOne", "apart"]

R = TypeVar("R", AddRun, CommandRun)

# Runs a command as all others are; what gives each its own error.
OneByOne = Callable[[Connection, list[bytes]], Reply]

# To whom, what, and whether each of these is the bytes of the wire; else they are replies as of any command.
Answers = tuple[list[Connection], list[Reply], bool]


class Kindred(Generic[R]):
    """Gathers runs of one kind, for one stream or group, in the order in which they came.

    Args:
        kind: of runs.
        name: of their commands.
        most: what their totals (of entries, or of IDs) may come to before no more are taken.
    """

    def __init__(self, kind: type[R], name: str, most: int) -> None:
        self.kind: type[R] = kind
        self.name, self._most = name, most
        self._database = -1
        self._connections: list[Connection] = []
        self._runs: list[R] = []
        self._total = 0

    def __len__(self) -> int:
        """Commands."""
        return sum(map(len, self._runs))

    def take(self, connection: Connection, run: R) -> bool:
        """Takes a run. False where it is for another place, or there is no more room: those before it run first."""
        database = connection.caller.database
        if not self._runs:
            self._database, total = database, run.kin_total(run)
        elif database != self._database or self._total >= self._most:
            return False
        else:
            total = run.kin_total(self._runs[0])
        if total is None:
            return False
        self._total += total
        self._connections.append(connection)
        self._runs.append(run)
        return True

    def empty(self) -> tuple[list[Connection], list[R]]:
        """Gives up what was taken: whose runs, and the runs."""
        given = self._connections, self._runs
        self._connections, self._runs, self._total = [], [], 0
        return given


def apart(connections: list[Connection], runs: Sequence[AddRun | CommandRun], one_by_one: OneByOne) -> Answers:
    """The replies to runs whose commands are each run by itself: those of a run as one."""
    answers: list[Reply] = []
    for connection, run in zip(connections, runs, strict=True):
        replies = [one_by_one(connection, words) for words in run.commands()]
        resp3 = connection.protocol > 2  # noqa: PLR2004  # RESP3
        answers.append(replies[0] if len(replies) == 1 else Raw(encode(replies, resp3=resp3)))
    return connections, answers, False
