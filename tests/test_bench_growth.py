"""The fit of growth tells a cost that grows from one that does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.context import Context, Scale
from bench.model import Result
from bench.subjects import growth
from bench.subjects.growth_costs import Stores

SCALE = Scale(seconds=0.02, rounds=2, entries=100_000, wakes=1, pending=100_000)


def verdicts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cost: Callable[[int], float]) -> dict[str, str]:
    """What the subject says where every cost follows one law."""

    def measured(_stores: Stores, sizes: list[int]) -> list[float]:
        return [cost(size) for size in sizes]

    laws = [
        growth.Law("flat", growth.STORED, 100_000, measured, growth.FLAT),
        growth.Law("linear", "segments", 200, measured, growth.LINEAR),
    ]
    monkeypatch.setattr(growth, "laws", lambda context: laws)
    result = Result("growth", "title", "method")
    growth.run(Context(SCALE, tmp_path, quiet=True), result)
    assert [len(series.points) for series in result.series] == [growth.SIZES]
    return {law.case: row.verdict for law, row in zip(laws, result.rows, strict=True)}


@pytest.mark.parametrize(
    ("cost", "flat", "linear"),
    [
        (lambda size: 3.0, "met", "met"),
        (lambda size: 10 + 0.5 * math.log2(size), "met", "met"),  # a search through a tree, on top of what is constant
        (lambda size: 0.5 * math.sqrt(size), "missed", "met"),
        (lambda size: 2.0 * size, "missed", "met"),
        (lambda size: 2.0 * size * math.log2(size + 1), "missed", "missed"),
        (lambda size: 0.1 * size**2, "missed", "missed"),
    ],
)
def test_a_cost_that_grows_is_found(
    cost: Callable[[int], float], flat: str, linear: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert verdicts(monkeypatch, tmp_path, cost) == {"flat": flat, "linear": linear}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    sizes = growth.five_sizes(1_000_000)
    assert growth.exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_sizes_span_two_decades() -> None:
    assert growth.five_sizes(1_000_000) == [10_000, 31_623, 100_000, 316_228, 1_000_000]
    assert growth.five_sizes(100) == [1, 3, 10, 32, 100]
