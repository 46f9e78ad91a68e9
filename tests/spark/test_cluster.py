"""The cluster of the fixtures: a driver on it that is killed leaves nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.engine.children import hear, say, until
from tests.spark.cluster import Cluster
from tests.spark.process_tree import in_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def waits_for_a_session(spark: "SparkSession") -> None:
    say("ready")
    hear()


def test_a_killed_driver_leaves_nothing_behind(cluster: Cluster, tmp_path: Path) -> None:
    """Neither on the cluster, which the next test uses, nor on this machine."""
    with cluster.driver(tmp_path, waits_for_a_session) as driver:
        assert driver.hear() == "ready"
        driver.until(lambda: cluster.executors().keys() == set(cluster.workers()))
        assert any("java" in process.command for process in in_session(driver.pid))
        assert driver.kill() == []
        assert in_session(driver.pid) == []
    until(lambda: not cluster.executors())
