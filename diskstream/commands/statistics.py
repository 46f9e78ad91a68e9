"""What commands have done so far: the numbers behind INFO."""

import time
from dataclasses import dataclass, field

__all__ = ["Calls", "Statistics"]

# Codes of errors that INFO lists; more would be somebody's doing (Redis has such a limit too).
MAX_CODES = 128


class Calls:
    """How often a command was called.

    Attributes:
        calls: so often it ran.
        nanoseconds: for so long, together.
        rejected: so often it was refused before it ran.
        failed: so often it ended with an error.
    """

    __slots__ = ("calls", "failed", "nanoseconds", "rejected")

    def __init__(self) -> None:
        self.calls = self.nanoseconds = self.rejected = self.failed = 0


@dataclass
class Statistics:
    """Counters since the start, or since CONFIG RESETSTAT.

    Attributes:
        commands: by name, as ``xgroup|create``.
        errors: by code, as ``ERR``.
        expired: keys that expired.
        started: by `time.time`.
        compaction_failed: whether the last BGREWRITEAOF did.
        saved: when everything was last made durable on demand.
    """

    commands: dict[str, Calls] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    started: float = field(default_factory=time.time)
    compaction_failed: bool = False
    saved: int = field(default_factory=lambda: int(time.time()))

    def of(self, name: str) -> Calls:
        """The counters of a command."""
        found = self.commands.get(name)
        if found is None:
            found = self.commands[name] = Calls()
        return found

    def count_error(self, text: bytes) -> None:
        """Counts an error reply by its code."""
        code = text.split(b" ", 1)[0].decode("latin-1")
        if code in self.errors or len(self.errors) < MAX_CODES:
            self.errors[code] = self.errors.get(code, 0) + 1

    def reset(self) -> None:
        """Begins anew, as CONFIG RESETSTAT."""
        self.commands.clear()
        self.errors.clear()
        self.expired = 0
