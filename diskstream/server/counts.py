"""What the server has counted since it started."""

from dataclasses import astuple, dataclass
from operator import sub

__all__ = ["Counts"]


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
