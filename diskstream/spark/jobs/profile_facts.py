"""A profile as facts: plain numbers and text, for JSON and for the page."""

import math
from collections.abc import Mapping
from typing import Any

from diskstream.spark.jobs.profile_fields import FieldProfile
from diskstream.spark.jobs.profile_task import StreamProfile

__all__ = ["facts_of"]

_COLUMNS = 240
_SPARKS = 120
_TOP = 8
_SHAPES = 20
_QUANTILES = (0.05, 0.5, 0.95)


def _text(name: bytes) -> str:
    """As all our JSON has bytes: those that are not UTF-8 are lone surrogates, of which they can be made again."""
    return name.decode("utf-8", "surrogateescape")


def facts_of(name: bytes, profile: StreamProfile) -> dict[str, Any]:
    """The facts of a stream; times are ms since 1970, sizes bytes."""
    found: dict[str, Any] = {"stream": _text(name), "entries": profile.entries, "size_bytes": profile.size_bytes}
    if not profile.entries:
        return found
    first, last = profile.first_ms, profile.last_ms
    start, length, counts, _ = profile.course.columns(first, last, _COLUMNS)
    span_s = (last - first) / 1000
    found |= {
        "first_ms": first,
        "last_ms": last,
        "entries_per_s": profile.entries / span_s if span_s else None,
        "rates": {"start_ms": start, "bucket_ms": length, "entries": counts.tolist()},
        "gaps": [{"ms": gap[0], "from_ms": gap[1], "to_ms": gap[2]} for gap in profile.gaps],
        "sizes": [
            {"from": (1 << at) >> 1, "below": 1 << at, "entries": int(count)}
            for at, count in enumerate(profile.size_classes)
            if count
        ],
        "shapes": [
            {"fields": sorted(map(_text, names)), "entries": count}
            for names, count in profile.shapes.most_common(_SHAPES)
        ],
        "other_shapes_entries": profile.entries - sum(count for _, count in profile.shapes.most_common(_SHAPES)),
        "fields": [_field(each, of, profile) for each, of in _by_presence(profile.fields)],
        "other_fields_values": profile.other_values,
    }
    return found


def _by_presence(fields: Mapping[bytes, FieldProfile]) -> list[tuple[bytes, FieldProfile]]:
    return sorted(fields.items(), key=lambda item: (-item[1].entries, item[0]))


def _field(name: bytes, of: FieldProfile, profile: StreamProfile) -> dict[str, Any]:
    first, last = profile.first_ms, profile.last_ms
    found: dict[str, Any] = {
        "name": _text(name),
        "type": of.kind(),
        "types": {kind: count for kind, count in of.kinds.items() if count},
        "entries": of.entries,
        "values": of.values,
        "presence": of.entries / profile.entries,
        "distinct": min(of.distinct.estimate(), of.values),
        "distinct_is_exact": of.distinct.is_exact,
        "length": {"min": of.shortest, "mean": of.size_bytes / of.values, "max": of.longest},
        "top": [
            {"value": _text(value), "count": count, "error": of.frequent.error}
            for value, count in of.frequent.top(_TOP)
            if count > max(1, of.frequent.error)  # else nothing says that others are rarer
        ],
        "values_over_time": of.course.columns(first, last, _SPARKS)[2].tolist(),
    }
    if of.numbers:
        _, _, counts, sums = of.numbers_course.columns(first, last, _SPARKS)
        means = [total / count if count else None for total, count in zip(sums.tolist(), counts.tolist(), strict=True)]
        low, median, high = of.quantiles(_QUANTILES)
        found["numbers"] = {
            "count": of.numbers,
            "min": of.least,
            "p5": low,
            "median": median,
            "mean": _finite(of.total / of.numbers),
            "p95": high,
            "max": of.greatest,
            "mean_over_time": [None if mean is None else _finite(mean) for mean in means],
        }
    return found


def _finite(number: float) -> float | None:
    """Sums of the largest doubles are infinite, which JSON does not know."""
    return number if math.isfinite(number) else None
