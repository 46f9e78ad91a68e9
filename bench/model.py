"""What a run hands on: figures with their spread, rows with a target and a verdict, subjects, and their JSON form."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

FORMAT = 1

Verdict = Literal["met", "missed", ""]


@dataclass(frozen=True)
class Figure:
    """A measured quantity: one sample a round, of which the median counts and the extremes are the spread."""

    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def low(self) -> float:
        return min(self.samples)

    @property
    def high(self) -> float:
        return max(self.samples)

    def as_json(self) -> dict[str, Any]:
        return {"unit": self.unit, "samples": list(self.samples), "median": self.median}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Figure:
        return cls(str(value["unit"]), tuple(float(sample) for sample in value["samples"]))


@dataclass(frozen=True)
class Target:
    """What a row aims at: a bound on its ratio or on its own figure, by the median or by the worst sample."""

    of: Literal["ratio", "figure"]
    at_least: float | None = None
    at_most: float | None = None
    worst: bool = False

    def met_by(self, figure: Figure) -> bool:
        if self.at_least is not None:
            return (figure.low if self.worst else figure.median) >= self.at_least
        return (figure.high if self.worst else figure.median) <= (self.at_most or 0.0)

    def as_json(self) -> dict[str, Any]:
        return {"of": self.of, "at_least": self.at_least, "at_most": self.at_most, "worst": self.worst}


@dataclass(frozen=True)
class Row:
    """One line of a table. Without a target it informs; with one it is a gate."""

    case: str
    ours: Figure
    peer_name: str | None = None
    peer: Figure | None = None
    target: Target | None = None

    @property
    def ratio(self) -> Figure | None:
        """Ours over the peer's, round by round, so that what the machine did to one round touches both sides."""
        if self.peer is None:
            return None
        pairs = list(zip(self.ours.samples, self.peer.samples, strict=False))
        return Figure("", tuple(ours / peer if peer else math.inf for ours, peer in pairs))

    @property
    def verdict(self) -> Verdict:
        """Whether the target is met; empty for a row that only informs, or whose peer is missing."""
        if self.target is None:
            return ""
        measured = self.ratio if self.target.of == "ratio" else self.ours
        if measured is None:
            return ""
        return "met" if self.target.met_by(measured) else "missed"

    def as_json(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "case": self.case,
            "ours": self.ours.as_json(),
            "peer_name": self.peer_name,
            "peer": self.peer.as_json() if self.peer else None,
            "ratio": ratio.median if ratio else None,
            "target": self.target.as_json() if self.target else None,
            "kind": "gate" if self.target else "informational",
            "verdict": self.verdict,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Row:
        return cls(
            case=str(value["case"]),
            ours=Figure.from_json(value["ours"]),
            peer_name=value["peer_name"],
            peer=Figure.from_json(value["peer"]) if value["peer"] else None,
            target=Target(**value["target"]) if value["target"] else None,
        )


@dataclass(frozen=True)
class Series:
    """One line of a picture: a cost or rate at several sizes, the median of the rounds at each.

    Attributes:
        chart: the picture that it belongs to; its axes are those of the first series there.
        name: what the line is called.
        along: what grows from left to right.
        unit: of what was measured.
        points: size and figure.
    """

    chart: str
    name: str
    along: str
    unit: str
    points: tuple[tuple[float, float], ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Series:
        points = tuple((float(x), float(y)) for x, y in value["points"])
        return cls(value["chart"], value["name"], value["along"], value["unit"], points)


@dataclass
class Result:
    """What one subject found: its rows, what it had to leave out, what is drawn, and the seconds that it took."""

    name: str
    title: str
    method: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "method": self.method,
            "rows": [row.as_json() for row in self.rows],
            "skipped": self.skipped,
            "notes": self.notes,
            "series": [series.as_json() for series in self.series],
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        rows = [Row.from_json(row) for row in value["rows"]]
        made = cls(value["name"], value["title"], value["method"], rows, list(value["skipped"]), list(value["notes"]))
        # Runs from before these were kept have neither.
        made.series = [Series.from_json(series) for series in value.get("series", ())]
        made.seconds = float(value.get("seconds", 0.0))
        return made


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which `share` of them lie (nearest rank)."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]
