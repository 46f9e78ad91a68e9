"""What the job `rollup` calls its columns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream

pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from diskstream.spark.jobs import rollup
from diskstream.spark.jobs.rollup_settings import Settings
from tests.spark.archives import no_spark

__all__ = ["no_spark"]


def test_a_quantile_has_its_own_name_however_close_it_is_to_another() -> None:
    wanted = (0.0, 0.07, 0.29, 0.5, 0.57, 0.999, 0.999999, 0.9999999, 1.0)
    settings = Settings("store", fields=("v",), quantiles=wanted).check()
    names = ("p0", "p7", "p29", "p50", "p57", "p99_9", "p99_9999", "p99_99999", "p100")
    assert settings.quantile_names == names


def test_a_field_to_group_by_may_be_called_as_what_a_chart_counts(no_spark: Any, tmp_path: Path) -> None:
    """The chart shows the groups with most entries first, and has a column for their sum."""
    pytest.importorskip("matplotlib", reason="pip install 'diskstream[spark]'")
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        store.stream("s").add_many([{"v": n, "entries_sum": n % 2} for n in range(6)])
    settings = Settings(str(tmp_path / "store"), fields=("v",), by=("entries_sum",), quantiles=())
    chart = tmp_path / "chart.png"
    rollup.run(no_spark, replace(settings, chart=chart))
    assert chart.read_bytes().startswith(b"\x89PNG")
