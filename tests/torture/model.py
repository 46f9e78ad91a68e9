"""What a part of the torture is given, and what it says of itself."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMAT", "Budget", "Report"]

FORMAT = 1


@dataclass
class Report:
    """What came of a part.

    Attributes:
        part: its name.
        seed: of everything random in it.
        seconds: how long it took.
        tried: how often each thing was tried: "states", "kills at a system call", "flipped bits", ...
        outcomes: how often each allowed outcome was seen: "right data", "a typed error", "a reported gap", ...
        violations: broken promises, as text that says how to see each again. Empty is what one hopes for.
        skipped: what could not be tried here, with the reason.
    """

    part: str
    seed: int
    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return vars(self) | {"tried": dict(self.tried), "outcomes": dict(self.outcomes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Report":
        """The report that `to_json` made."""
        return cls(**{**values, "tried": Counter(values["tried"]), "outcomes": Counter(values["outcomes"])})


@dataclass
class Budget:
    """How long a part may go on, and from which seed.

    Attributes:
        seed: of everything random.
        seconds: after which nothing new is begun.
        at_most: how many things to try at the most, whatever a part counts; None is no bound but the time.
        say: takes a line on how far it is, where somebody looks.
    """

    seed: int
    seconds: float
    at_most: int | None = None
    say: Callable[[str], None] = lambda _line: None
    began: float = field(default_factory=time.monotonic)

    def left_s(self) -> float:
        """Seconds that are left; never below zero."""
        return max(0.0, self.began + self.seconds - time.monotonic())

    def goes_on(self, tried: int) -> bool:
        """Whether another one is to be tried. The first always is: a part that tried nothing would prove nothing."""
        if tried == 0:
            return True
        return self.left_s() > 0 and (self.at_most is None or tried < self.at_most)

    def finished(self, report: Report) -> Report:
        """Notes in a report how long it took."""
        report.seconds = round(time.monotonic() - self.began, 1)
        return report
