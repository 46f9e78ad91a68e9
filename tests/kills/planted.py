"""Mistakes for the kills and the errors to catch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diskstream import Stream
from diskstream.engine import seal, stream_folders
from diskstream.engine.files import Files, wrapped
from tests.engine.children import say
from tests.kills.run import Job, run
from tests.kills.workload import Script

__all__ = ["MISTAKES", "hunt"]


def added_in_two_frames(patch: pytest.MonkeyPatch) -> None:
    """Several entries are added by two frames: a kill between them leaves some."""
    whole = Stream.add_many

    def add_many(stream: Stream, rows: Any, *, ids: Any = None, **options: Any) -> Any:
        if len(rows) < 2 or options.get("commit") is not None:
            return whole(stream, rows, ids=ids, **options)
        first = whole(stream, rows[:1], ids=None if ids is None else ids[:1])
        return [*first, *whole(stream, rows[1:], ids=None if ids is None else ids[1:], **options)]

    patch.setattr(Stream, "add_many", add_many)


def removed_before_there_is_another(patch: pytest.MonkeyPatch) -> None:
    """While a segment is sealed, the log file that it is made of is away."""
    whole = seal._write

    def write(log: Any, target: Path, *given: Any, **named: Any) -> Any:
        source = target.with_name(target.name.partition(".")[0] + ".log")
        away = source.with_suffix(".away")
        if source.exists():
            source.rename(away)
        try:
            return whole(log, target, *given, **named)
        finally:
            if away.exists():
                away.rename(source)

    patch.setattr(seal, "_write", write)


def made_bit_by_bit(patch: pytest.MonkeyPatch) -> None:
    """A stream's directory gets its name file by file."""
    whole = Files.rename

    def rename(files: Files, source: Path, target: Path) -> None:
        if not source.is_dir():
            whole(files, source, target)
            return
        target.mkdir()
        for path in sorted(source.iterdir()):
            path.rename(target / path.name)
        source.rmdir()

    patch.setattr(Files, "rename", rename)


def left_lying_about(patch: pytest.MonkeyPatch) -> None:
    """What an interrupted creation or removal left is never taken away."""
    patch.setattr(stream_folders, "sweep", lambda *_: 0)


def errors_of_the_system(patch: pytest.MonkeyPatch) -> None:
    """An error of the system comes out as it is."""
    patch.setattr(wrapped, "__exit__", lambda *_: None)


def errors_passed_over(patch: pytest.MonkeyPatch) -> None:
    """A name that could not be changed counts as changed."""
    whole = Files.rename

    def rename(files: Files, source: Path, target: Path) -> None:
        try:
            whole(files, source, target)
        except OSError:
            return

    patch.setattr(Files, "rename", rename)


_ANY: frozenset[str] = frozenset()
# The kind of job that finds it, and at which system calls: one that is rare is not left to chance.
MISTAKES: dict[str, tuple[str, frozenset[str], Callable[[pytest.MonkeyPatch], None]]] = {
    "added in two frames": ("kill", frozenset({"pwrite64", "pwritev2"}), added_in_two_frames),
    "removed before there is another": ("kill", _ANY, removed_before_there_is_another),
    "made bit by bit": ("kill", _ANY, made_bit_by_bit),
    "left lying about": ("kill", _ANY, left_lying_about),
    "errors of the system": ("error", _ANY, errors_of_the_system),
    "errors passed over": ("error", frozenset({"rename"}), errors_passed_over),
}


def hunt(mistake: str) -> None:
    """Plants a mistake in this process, and says what comes of it."""
    kind, calls, plant = MISTAKES[mistake]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in range(1, 21):
            for policy in ("always", "os"):
                outcome = run(Job(kind, Script(policy, seed), 8, calls=calls))
                if outcome.violations:
                    say("caught", seed, *" ".join(outcome.violations)[:300].split("\n"))
                    return
    say("missed")
