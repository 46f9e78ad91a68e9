"""What the server has counted since it started."""

from dataclasses import astuple, dataclass, replace
from operator import sub

__all__ = ["Counts", "Pace"]

# Of less than that a pace would be made of a few commands, by chance.
_SHORTEST_S = 0.5


@dataclass(slots=True)
class Counts:
    """Totals; each only grows.

    Attributes:
        connections: accepted.
        rejected: turned away for `maxclients` or by protected mode.
        commands: run.
        batched: of them, entries that were added several at a time.
        bytes_in, bytes_out: of all sockets.
        turns: of the loop, those that had something to do.
        query_limit, output_limit, idle: connections closed, and why.
        protocol_errors: requests that were no RESP.
        waits: commands that waited.
    """

    connections: int = 0
    rejected: int = 0
    commands: int = 0
    batched: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    turns: int = 0
    query_limit: int = 0
    output_limit: int = 0
    idle: int = 0
    protocol_errors: int = 0
    waits: int = 0

    def since(self, before: "Counts") -> "Counts":
        """What was counted since these were as they were `before`."""
        return Counts(*map(sub, astuple(self), astuple(before)))


class Pace:
    """How much was counted a second, of late.

    Args:
        counts: what is looked at; it grows meanwhile.
        now: the time, in seconds.

    Attributes:
        commands, bytes_in, bytes_out: a second, between the last two looks; 0 before there are two.
    """

    def __init__(self, counts: Counts, now: float) -> None:
        self._counts = counts
        self.begin(now)

    def begin(self, now: float) -> None:
        """Begins anew, as from the start."""
        self._before, self._at = replace(self._counts), now
        self.commands = self.bytes_in = self.bytes_out = 0.0

    def look(self, now: float) -> None:
        """Looks how much it has become; to be called about once a second."""
        seconds = now - self._at
        if seconds < _SHORTEST_S:
            return
        grown = self._counts.since(self._before)
        self._before, self._at = replace(self._counts), now
        self.commands = grown.commands / seconds
        self.bytes_in, self.bytes_out = grown.bytes_in / seconds, grown.bytes_out / seconds
