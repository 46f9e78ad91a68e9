"""What the job `rollup` calls its columns."""

import pytest

pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from diskstream.spark.jobs.rollup_settings import Settings


def test_a_quantile_has_its_own_name_however_close_it_is_to_another() -> None:
    wanted = (0.0, 0.07, 0.29, 0.5, 0.57, 0.999, 0.999999, 0.9999999, 1.0)
    settings = Settings("store", fields=("v",), quantiles=wanted).check()
    names = ("p0", "p7", "p29", "p50", "p57", "p99_9", "p99_9999", "p99_99999", "p100")
    assert settings.quantile_names == names
