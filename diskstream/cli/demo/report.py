"""What the demo shows: its progress, the kill and the recovery, and the table of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from diskstream.cli.demo.board import Board, Word
from diskstream.cli.demo.figures import Figures
from diskstream.cli.demo.group import Shared
from diskstream.cli.demo.phases import VICTIM, Fed, Reopened
from diskstream.cli.demo.pipeline import Piped
from diskstream.cli.output import error_console, plain


@dataclass(slots=True)
class DemoReport:
    """One run of the demo."""

    directory: str
    before: Fed
    reopened: Reopened
    after: Fed
    sealed: int
    log_bytes: int
    figures: list[Figures]
    shared: Shared
    piped: Piped | None = None

    def facts(self) -> dict[str, Any]:
        """The report for programs."""
        killed = self.before.killed
        return {
            "directory": self.directory,
            "seconds": self.before.seconds + self.after.seconds,
            "tail_latency_us": self.tail_latency_us(),
            "ranges_read": self.before.ranged.ranges + self.after.ranged.ranges,
            "entries_ranged": self.before.ranged.entries + self.after.ranged.entries,
            "killed": None if killed is None else asdict(killed),
            "reopened": plain(self.reopened),
            "sealed": self.sealed,
            "bytes_before_sealing": self.log_bytes,
            "streams": [asdict(each) for each in self.figures],
            "group": asdict(self.shared),
            "spark": None if self.piped is None else asdict(self.piped),
        }

    def tail_latency_us(self) -> float:
        """From taking a sample to reading it in the tailing process, the median."""
        taken = self.before.tailed.latencies_ns + self.after.tailed.latencies_ns
        return median(taken) / 1000 if taken else 0.0


@contextmanager
def demo_progress(seconds: float, board: Board) -> Iterator[Callable[[str, float], Callable[[float], None]]]:
    """A bar on standard error, silent in a pipe. Yields what begins a phase, given title and seconds before it."""
    console = error_console()
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as progress:
        task = progress.add_task("starting", total=seconds, counts="")

        def phase(title: str, before: float) -> Callable[[float], None]:
            progress.update(task, description=title, completed=before)

            def tick(elapsed: float) -> None:
                appended, tailed = board.total(Word.APPENDED), board.total(Word.TAILED)
                counts = f"{appended:,} appended, {tailed:,} tailed, {board.total(Word.RANGED):,} ranged"
                progress.update(task, completed=min(before + elapsed, seconds), counts=counts)

            return tick

        yield phase


def show(report: DemoReport, console: Console) -> None:
    """The report for people."""
    seconds = report.before.seconds + report.after.seconds
    entries = sum(each.entries for each in report.figures)
    ranged = report.before.ranged.entries + report.after.ranged.entries
    console.print(
        f"Two processes fed {entries:,} entries in {seconds:.1f} s, one followed them "
        f"({report.tail_latency_us():,.0f} µs from sample to tail, the median), "
        f"one read {ranged:,} from random places. No gap, all in order."
    )
    _show_kill(report, console)
    console.print(_recovery_table(report.reopened))
    after = sum(each.disk_bytes for each in report.figures)
    console.print(f"Sealed {report.sealed} segments: {decimal(report.log_bytes)} became {decimal(after)}.")
    console.print(_figures_table(report.figures))
    _show_group(report.shared, console)
    if report.piped is not None:
        _show_pipeline(report.piped, console)


def _show_kill(report: DemoReport, console: Console) -> None:
    killed = report.before.killed
    if killed is None:
        return
    name = VICTIM[0]
    kept = report.reopened.numbers.get(name, 0) - killed.acknowledged[name]
    where = f"inside an append of {killed.pending} entries" if killed.in_append else "between two appends"
    if not killed.in_append:
        fate = "nothing was under way"
    else:
        fate = f"the {kept} of that append were whole and are kept" if kept else "nothing of that append was kept"
    console.print(
        f"The producer of {' and '.join(VICTIM)} was killed {where} (kill {killed.kills}). "
        f"All {killed.acknowledged[name]:,} acknowledged entries of {name} are there; {fate}."
    )


def _recovery_table(reopened: Reopened) -> Table:
    table = Table(title="Recovery, on reopening", title_justify="left")
    for heading in ("stream", "entries", "found", "bytes", "done about it", "open in"):
        table.add_column(heading, justify="right" if heading in ("entries", "bytes", "open in") else "left")
    for name, number in reopened.numbers.items():
        ends = (name, f"{number:,}"), f"{reopened.seconds[name] * 1000:,.1f} ms"
        findings = [finding for recovery in reopened.recoveries[name] for finding in recovery.findings]
        for finding in findings:
            found = f"{finding.kind}: {finding.detail}" if finding.detail else finding.kind
            table.add_row(*ends[0], found, f"{finding.size_bytes:,}", finding.action, ends[1])
        if not findings:
            table.add_row(*ends[0], "sound to its end", "0", "nothing", ends[1])
    return table


def _figures_table(figures: list[Figures]) -> Table:
    table = Table(title="Streams", title_justify="left")
    table.add_column("stream")
    for heading in ("entries", "raw", "on disk", "of raw", "appends/s", "by", "reads/s", "seek"):
        table.add_column(heading, justify="left" if heading == "by" else "right")
    for each in figures:
        table.add_row(
            each.stream,
            f"{each.entries:,}",
            decimal(each.raw_bytes),
            decimal(each.disk_bytes),
            f"{each.disk_bytes / max(each.raw_bytes, 1):.1%}",
            f"{each.appends_per_s:,.0f}",
            each.appended_by,
            f"{each.reads_per_s:,.0f}",
            f"{each.seek_us:,.1f} µs",
        )
    return table


def _show_group(shared: Shared, console: Console) -> None:
    victim = next(member for member in shared.members if member.held is not None)
    repeated = sum(member.repeated for member in shared.members)
    but = f", but for {repeated:,} that had been processed and not yet acknowledged" if repeated else ""
    console.print(
        f"Three processes shared the {shared.entries:,} entries of {shared.stream} as a consumer group. "
        f"{victim.name} was killed holding {victim.held:,} (kill {shared.kills}), which the others claimed. "
        f"Each entry was processed once{but}."
    )
    table = Table(title="Consumer group", title_justify="left", show_footer=True)
    table.add_column("worker", "total")
    counts = [(member.processed, member.claimed, member.repeated) for member in shared.members]
    totals = [sum(column) for column in zip(*counts, strict=True)]
    for heading, total in zip(("processed", "claimed", "again"), totals, strict=True):
        table.add_column(heading, f"{total:,}", justify="right")
    table.add_column("end", f"{shared.entries:,} entries")
    for member, row in zip(shared.members, counts, strict=True):
        end = "at the end of the stream" if member.held is None else f"killed holding {member.held:,}"
        table.add_row(member.name, *(f"{count:,}" for count in row), end)
    console.print(table)


def _show_pipeline(piped: Piped, console: Console) -> None:
    console.print(
        f"Spark read stream {piped.stream} while it was fed ({piped.live:,} entries before its producer ended, "
        f"{piped.entries:,} in all), and made of it, in {piped.took_s:.0f} s:"
    )
    table = Table(title="Spark", title_justify="left")
    for heading in ("what", "how much", "where"):
        table.add_column(heading, justify="right" if heading == "how much" else "left")
    table.add_row("read live, by second", f"{piped.seconds_of_time:,} seconds", "a table in memory")
    table.add_row("rollup", f"{piped.windows:,} windows", Path(piped.rollup).name)
    table.add_row("archive", f"{piped.archived:,} entries in {piped.files:,} files", "archive/")
    table.add_row("compared with the stream", f"{piped.compared:,} entries", "no difference")
    table.add_row("chart", "", Path(piped.chart).name)
    console.print(table)
