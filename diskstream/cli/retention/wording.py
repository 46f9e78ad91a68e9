"""Rules of retention, and what comes of them, in words."""

from __future__ import annotations

from rich.filesize import decimal

import diskstream
from diskstream.cli.duration import duration
from diskstream.cli.output import attributes
from diskstream.plurals import number_of
from diskstream.redis_link import shown

__all__ = ["limits_of", "rule_facts", "what_goes"]


def limits_of(rule: diskstream.RetentionRule) -> list[str]:
    """The limits of a rule, one by one."""
    found = []
    if rule.max_age_ms is not None:
        found.append(f"{duration(rule.max_age_ms)} old")
    if rule.max_bytes is not None:
        found.append(decimal(rule.max_bytes))
    if rule.max_entries is not None:
        found.append(number_of(rule.max_entries, "entry"))
    if rule.on_trim:
        found.append("what no trim has passed")
    return found


def rule_facts(rule: diskstream.RetentionRule | None) -> dict[str, object] | None:
    """A rule as JSON has it; a place is shown without what may be secret."""
    if rule is None:
        return None
    return {**attributes(rule), "to": None if rule.to is None else shown(rule.to)}


def what_goes(report: diskstream.RetentionReport) -> str:
    """What a report says, for people."""
    parts = []
    if report.removed or not (report.moved or report.references):
        parts.append(number_of(report.removed, "entry"))
    if report.references:
        parts.append(number_of(report.references, "pending entry"))
    # Each limit has a report of its own, and a dry run finds a segment by each of them.
    segments = {(each.number, each.generation): each for one in report.moved for each in one.segments}
    if report.moved:
        entries = sum(segment.entries for segment in segments.values())
        parts.append(f"{number_of(entries, 'entry')} in {number_of(len(segments), 'segment')} to cold storage")
    return ", ".join(parts)
