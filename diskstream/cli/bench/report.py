"""What `diskstream bench` prints: the median of each case, and how far its rounds lie apart."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from diskstream.cli.bench.cases import Bounds
from diskstream.cli.bench.machine import NOT_A_DISK
from diskstream.plurals import number_of


@dataclass(frozen=True)
class Outcome:
    """What the rounds of a case gave under a policy, in entries a second."""

    case: str
    fsync: str
    samples: list[float]

    @property
    def median(self) -> float:
        """Of all rounds."""
        return statistics.median(self.samples)

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "case": self.case,
            "fsync": self.fsync,
            "entries_per_s": round(self.median, 1),
            "least_per_s": round(min(self.samples), 1),
            "most_per_s": round(max(self.samples), 1),
            "rounds": len(self.samples),
        }


def show(outcomes: list[Outcome], machine: dict[str, str], bounds: Bounds, terminal: Console) -> None:
    """Print the facts of the machine and a table."""
    for name, value in machine.items():
        terminal.print(f"{name}: {value}", markup=False, soft_wrap=True)
    terminal.print(f"entries: one field of {number_of(bounds.value_bytes, 'byte')}", markup=False)
    if machine["file system"] in NOT_A_DISK:
        terminal.print("This is memory, and no disk: --dir names one.", style="yellow", markup=False)
    table = Table("case", box=None, pad_edge=False)
    table.add_column("fsync")
    for heading in ("entries/s", "least", "most", "µs each"):
        table.add_column(heading, justify="right")
    for each in outcomes:
        rates = (each.median, min(each.samples), max(each.samples))
        microseconds = 1e6 / each.median if each.median else float("inf")
        table.add_row(each.case, each.fsync, *(f"{rate:,.0f}" for rate in rates), f"{microseconds:,.2f}")
    terminal.print()
    terminal.print(table)
