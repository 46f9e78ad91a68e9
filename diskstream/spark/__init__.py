"""diskstream for Spark: a data source for live and archived streams, and the jobs on top of it."""

from typing import TYPE_CHECKING

from diskstream.errors import MissingPackageError

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as error:
    raise MissingPackageError("diskstream.spark", "pyspark", "spark", error) from None

from diskstream.spark.acknowledge import Follower
from diskstream.spark.columnar import scan_by_columns
from diskstream.spark.source import DiskstreamSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["DiskstreamSource", "GroupFollower", "register"]


class GroupFollower(StreamingQueryListener):
    """Moves the consumer group of a query's option `group` on, right after each batch."""

    def __init__(self) -> None:
        """Follows no query yet."""
        self._follower = Follower()

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802  # Spark's name
        """Nothing."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802  # Spark's name
        """A batch is complete: so is what it read."""
        self._follower.acknowledge_progress([source.endOffset for source in event.progress.sources])

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802  # Spark's name
        """Nothing."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802  # Spark's name
        """Nothing."""


def register(spark: "SparkSession", *, groups: bool = False, columnar: bool = True) -> GroupFollower | None:
    """Makes the format `diskstream` known to a session.

    Args:
        spark: the session.
        groups: have consumer groups follow queries (option `group`) as soon as each batch is complete. Without it they
            follow one batch later, when Spark says that it commits.
        columnar: have reads go by columns, where the classes for that have been compiled for this Spark
            (`python -m diskstream.spark.columnar`). Without it they go by rows, as they do where there are none.

    Returns:
        The listener, with `groups`, so that it can be removed again.
    """
    spark.dataSource.register(DiskstreamSource)
    scan_by_columns(spark, on=columnar)
    if not groups:
        return None
    follower = GroupFollower()
    spark.streams.addListener(follower)
    return follower
