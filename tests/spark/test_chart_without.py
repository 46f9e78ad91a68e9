"""A chart where there is nothing to draw it with."""

import importlib.util

import pytest

from diskstream import MissingPackageError
from diskstream.spark.jobs.chart import check_matplotlib


def test_what_a_chart_is_drawn_with_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It named the package alone, of whatever version, and no program could tell the error from another."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError) as told:
        check_matplotlib()
    assert str(told.value) == "a chart needs matplotlib: pip install 'diskstream[spark]'"
    assert told.value.name == "matplotlib"
