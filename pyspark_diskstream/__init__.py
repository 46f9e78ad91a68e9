"""Spark finds data sources in top-level modules named `pyspark_...`: this one makes `diskstream` known."""

from diskstream.spark.source import DiskstreamSource as DefaultSource

__all__ = ["DefaultSource"]
