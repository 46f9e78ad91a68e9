"""Retention that moves instead of removing: whole sealed segments go to cold storage, and stay readable."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diskstream.engine import forking, limits
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone
from diskstream.errors import ArgumentError
from diskstream.retaining import Memory, plan
from diskstream.retention_rule import RetentionRule
from diskstream.trim_marks import mark_of

if TYPE_CHECKING:
    from diskstream.stream import Stream

__all__ = ["candidates", "check_mover", "move"]

# It stands above the streams (tests/test_house.py), so it is looked up by name when a rule asks for it.
_MOVER = "diskstream.cold.moving"
# What the mover calls the limits of a rule.
_OPTIONS = {"max_age_ms": "older_than_ms", "max_bytes": "keep_bytes", "max_entries": "keep_entries"}


def _mover(name: str = "move_out") -> Callable[..., Any]:
    try:
        with forking.importing():  # in the background of a store, where its rule asks for it
            found: Callable[..., Any] = getattr(importlib.import_module(_MOVER), name)
    except ImportError as error:
        raise ArgumentError(
            f"nothing here can move segments to cold storage ({error}): install diskstream with its extra for that, or "
            "set a rule without `to`"
        ) from error
    return found


def check_mover(stream: "Stream", to: str) -> None:
    """Makes sure that this installation can move segments of a stream there, as far as the URL tells.

    A place on a disk that is new gets its folder.

    Raises:
        ArgumentError: it cannot.
        NoSuchStreamError: there is no stream.
        RemoteError: the disk refuses the folder.
    """
    _mover("check_place")(stream, to)


def candidates(
    log: StreamLog, rule: RetentionRule, now: int, memory: Memory
) -> list[tuple[dict[str, Any], list[tuple[int, int]]]]:
    """For each limit of a rule, as the mover takes it, the sealed segments that are beyond it and still here."""
    found: list[tuple[dict[str, Any], list[tuple[int, int]]]] = []
    for name, option in _OPTIONS.items():
        value = getattr(rule, name)
        if value is None:
            continue
        try:
            before = plan(log, RetentionRule(**{name: value}), now, memory.sizes).place[0]
        except SegmentGone:
            continue  # the segments have changed meanwhile: next time
        if segments := limits.sealed_files(log, before):
            found.append(({option: value}, segments))
    mark = mark_of(log) if rule.on_trim else None
    if mark is not None:
        passed = [view.number for view in log.segments.views() if view.last < mark]
        if passed and (segments := limits.sealed_files(log, passed[-1] + 1)):
            found.append(({"before": mark}, segments))
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
    for how, _ in candidates(log, rule, now, memory):
        # By the time that this was planned with: the store's own clock may be one that is not believed.
        reports.append(_mover()(stream, rule.to, **how, now_ms=now, dry_run=dry_run, progress=progress))
        log.refresh()
    return tuple(reports)
