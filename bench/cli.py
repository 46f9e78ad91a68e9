"""The command line of the suite: which subjects, at which scale, and where the figures go."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import machine, table
from bench.context import FULL, QUICK, Context, Scale, scratch_directory
from bench.model import FORMAT, Result

FEWEST_ENTRIES = 1000
FEWEST_PENDING = 2000
QUIET_CORES = 0.2


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m bench", description="diskstream beside what one would use instead, in one run."
    )
    made.add_argument("--quick", action="store_true", help="shorter turns, fewer rounds, fewer entries")
    made.add_argument("--only", action="append", metavar="NAME", help="this subject (may be given several times)")
    made.add_argument("--list", action="store_true", help="name the subjects and stop")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    made.add_argument("--large", type=int, metavar="N", help="only this: a store of N entries against one of a million")
    made.add_argument("--large-spark", type=int, metavar="N", help="only this: N entries through Spark, and its memory")
    made.add_argument("--dir", type=Path, metavar="DIR", help="where to put data (on a disk; default: inside bench/)")
    made.add_argument("--seconds", type=float, help="length of a turn")
    made.add_argument("--rounds", type=int, help="rounds of turns")
    made.add_argument("--entries", type=int, help="entries stored to be read")
    made.add_argument("--wakes", type=int, help="entries a turn for the blocked reader")
    made.add_argument("--pending", type=int, help="entries pending in a consumer group")
    made.add_argument("--per-second", type=int, help="entries a second where a server's latency is measured")
    made.add_argument("--gate", action="store_true", help="exit with 1 when a target is missed")
    made.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return made


def scale(options: argparse.Namespace) -> Scale:
    """The scale asked for: the full or the quick one, with what was given in its place."""
    chosen = QUICK if options.quick else FULL
    given = {name: getattr(options, name) for name in asdict(chosen) if getattr(options, name) is not None}
    return replace(chosen, **given)


def check(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses what makes no sense."""
    chosen = scale(options)
    if chosen.seconds <= 0 or chosen.rounds < 1 or chosen.wakes < 1:
        made.error("--seconds, --rounds and --wakes are above zero")
    if chosen.entries < FEWEST_ENTRIES or (options.large is not None and options.large < 10 * FEWEST_ENTRIES):
        made.error(f"--entries is at least {FEWEST_ENTRIES}, --large at least {10 * FEWEST_ENTRIES}")
    if chosen.pending < FEWEST_PENDING:
        made.error(f"--pending is at least {FEWEST_PENDING}")
    if chosen.per_second < 1:
        made.error("--per-second is at least 1")
    if options.large_spark is not None and options.large_spark < 10 * FEWEST_ENTRIES:
        made.error(f"--large-spark is at least {10 * FEWEST_ENTRIES}")
    if sum((options.large is not None, options.large_spark is not None, bool(options.only))) > 1:
        made.error("--large, --large-spark and --only exclude one another")


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[Result]]:
    """Runs what was asked for, printing each table when it is there; returns the run as JSON, and the results."""
    from bench import subjects
    from bench.subjects import large, spark_large

    alone = [(module, size) for module, size in ((large, options.large), (spark_large, options.large_spark)) if size]
    results: list[Result] = []
    with scratch_directory(options.dir) as scratch:
        context = Context(scale(options), scratch, options.quiet)
        facts = machine.facts(scratch)
        neighbours = machine.Neighbours()
        if alone:
            module, size = alone[0]
            results.append(subjects.run(module, context, size))
            print(table.terminal(results[0]), flush=True)
        else:
            for name, subject in subjects.all_subjects().items():
                if not options.only or name in options.only:
                    results.append(subjects.run(subject, context))
                    print(table.terminal(results[-1]), flush=True)
        took = ", ".join(f"{each.name} {each.seconds:.0f}" for each in results)
        print(f"\n{sum(each.seconds for each in results):.0f} seconds: {took}")
        others = neighbours.cores()
        facts["used by others during the run"] = f"{others:.2f} cores"
        if others > QUIET_CORES:
            print(f"\nNot a quiet machine: others used {others:.2f} cores, and these figures say little.")
    run = {
        "format": FORMAT,
        "machine": facts,
        "scale": asdict(context.scale) | {module.NAME: size for module, size in alone},
        "subjects": [result.as_json() for result in results],
    }
    return run, results


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the suite."""
    made = parser()
    options = made.parse_args(arguments)
    check(made, options)
    if find_spec("diskstream") is None or find_spec("diskstream._native") is None:
        made.error("diskstream is not built in this environment")
    from bench import subjects

    names = list(subjects.all_subjects())
    if options.list:
        print("\n".join([*names, "large (by --large N)", "spark_large (by --large-spark N)"]))
        return 0
    unknown = sorted(set(options.only or ()) - set(names))
    if unknown:
        others = "for large use --large N, for spark_large --large-spark N"
        made.error(f"no such subject: {', '.join(unknown)} (there are {', '.join(names)}; {others})")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run, results = measure(options)
    if options.json:
        options.json.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    missed = [row for result in results for row in result.rows if row.verdict == "missed"]
    return 1 if options.gate and missed else 0
