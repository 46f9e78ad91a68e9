"""diskstream for Spark: a data source for live and archived streams, and the jobs on top of it."""

from typing import TYPE_CHECKING

from diskstream.spark.source import DiskstreamSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DiskstreamSource", "register"]


def register(spark: "SparkSession") -> None:
    """Makes the format `diskstream` known to a session."""
    spark.dataSource.register(DiskstreamSource)
