"""Retention that moves instead of removing: whole sealed segments go to cold storage, and stay readable."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diskstream.engine import limits
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone
from diskstream.errors import ArgumentError
from diskstream.retaining import Memory, plan
from diskstream.retention_rule import RetentionRule

if TYPE_CHECKING:
    from diskstream.stream import Stream

__all__ = ["candidates", "check_mover", "move"]

# It stands above the streams (tests/test_house.py), so it is looked up by name when a rule asks for it.
_MOVER = "diskstream.cold.moving"


def _mover(name: str = "move_out") -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(_MOVER), name)
    except ImportError as error:
        raise ArgumentError(
            f"nothing here can move segments to cold storage ({error}): install diskstream with its extra for that, or "
            "set a rule without `to`"
        ) from error
    return found


def check_mover(stream: "Stream", to: str) -> None:
    """Makes sure that this installation can move segments of a stream there, as far as the URL tells.

    Raises:
        ArgumentError: it cannot.
    """
    _mover("check_place")(stream, to)


def candidates(
    log: StreamLog, rule: RetentionRule, now: int, memory: Memory
) -> list[tuple[RetentionRule, list[tuple[int, int]]]]:
    """For each limit of a rule, as a rule of its own, the sealed segments that are beyond it and still here."""
    alone = (
        rule.max_age_ms and RetentionRule(max_age_ms=rule.max_age_ms, to=rule.to),
        rule.max_bytes and RetentionRule(max_bytes=rule.max_bytes, to=rule.to),
        rule.max_entries and RetentionRule(max_entries=rule.max_entries, to=rule.to),
    )
    found = []
    for single in alone:
        if not isinstance(single, RetentionRule):
            continue
        try:
            before = plan(log, single, now, memory.sizes).place[0]
        except SegmentGone:
            continue  # the segments have changed meanwhile: next time
        segments = limits.sealed_files(log, before)
        if segments:
            found.append((single, segments))
    return found


def move(
    stream: "Stream",
    log: StreamLog,
    rule: RetentionRule,
    now: int,
    memory: Memory,
    *,
    dry_run: bool = False,
    progress: Callable[..., None] | None = None,
) -> tuple[Any, ...]:
    """Moves what is beyond the limits of a rule. Returns what each move reported; nothing where nothing is to move.

    Raises:
        ArgumentError: this installation cannot move.
        RemoteError, StorageError: it failed; what it had moved is moved, what it had not is still here.
    """
    log.refresh()
    reports = []
    for single, _ in candidates(log, rule, now, memory):
        reports.append(
            _mover()(
                stream,
                rule.to,
                older_than_ms=single.max_age_ms,
                keep_bytes=single.max_bytes,
                keep_entries=single.max_entries,
                before=None,
                dry_run=dry_run,
                progress=progress,
            )
        )
        log.refresh()
    return tuple(reports)
