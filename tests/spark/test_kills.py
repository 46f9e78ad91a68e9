"""Random `kill -9` of drivers, executors and workers: a query that is started again has each entry once, in order.

Three kills here, one of each kind. `DISKSTREAM_SPARK_KILLS=20` for more, `DISKSTREAM_SPARK_SEED` for those of a run
that failed: its message names its seed.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow.parquet as pq
import pytest

import diskstream
from diskstream import Store
from tests.engine.children import hear, say
from tests.spark.cluster import Cluster
from tests.spark.driver import Driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

KILLS = int(os.environ.get("DISKSTREAM_SPARK_KILLS", "3"))
SEED = int(os.environ.get("DISKSTREAM_SPARK_SEED", "1" if os.environ.get("CI") else random.randrange(1 << 30)))
# One batch has so many entries at most, and each kill finds a backlog of some batches.
BATCH, FED = 200, 600
MOMENT_LIMIT_S = 240.0
# Each is one process that dies with what it started.
KINDS = ["driver", "executor", "worker"]


# --- in the driver ----------------------------------------------------------------------------------------------------


def two_copies(spark: "SparkSession", folder: str) -> None:
    """Copies the stream `in`, each number doubled, to the stream `out` and to Parquet, until it is told to drain it."""
    from diskstream.spark import register

    def to_parquet(batch: "DataFrame", number: int) -> None:
        # A batch that comes again is the same, and takes the place of what is there.
        batch.write.mode("overwrite").parquet(f"{folder}/parquet/{number:06d}")

    register(spark)

    def doubled(checkpoint: str) -> "DataStreamWriter":
        # For each query a frame of its own: two that share one spoil each other's tasks while Spark serializes them.
        source = spark.readStream.format("diskstream").schema("n long")
        options: dict[str, Any] = {"startingIds": "earliest", "maxEntriesPerTrigger": BATCH, "minPartitions": 2}
        frame = source.options(**options).load(f"{folder}/store", streams="in").selectExpr("n * 2 as n")
        return frame.writeStream.option("checkpointLocation", f"{folder}/{checkpoint}")

    sink = doubled("to-stream").format("diskstream").option("path", f"{folder}/store").option("stream", "out")
    # One after the other: a map that Spark keeps of a Python source grows as a query begins, and tasks of another query
    # that are serialized in that moment cannot be read (OptionalDataException), however often they are tried.
    queries = [sink.start()]
    queries[0].processAllAvailable()
    queries.append(doubled("to-parquet").foreachBatch(to_parquet).start())
    say("started")
    hear()
    for query in queries:
        query.processAllAvailable()
    say("drained")


# --- beside it --------------------------------------------------------------------------------------------------------


class Pipeline:
    """A cluster with a driver that copies, fed with numbers from 0 on, and the ways to hurt it."""

    def __init__(self, cluster: Cluster, folder: Path, chance: random.Random) -> None:
        self.cluster, self.folder, self.chance = cluster, folder, chance
        self.store: Store = diskstream.open(folder / "store")
        self.fed = 0
        self.feed()
        self._running = ExitStack()
        self.driver = self._start()

    def _start(self) -> Driver:
        settings = {"spark.task.maxFailures": "100", "spark.deploy.maxExecutorRetries": "-1"}
        driver = self._running.enter_context(self.cluster.driver(self.folder, two_copies, self.folder, **settings))
        assert driver.hear() == "started"
        return driver

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        self.store.close()

    def feed(self) -> None:
        self.store.stream("in").add_many([{"n": number} for number in range(self.fed, self.fed + FED)])
        self.fed += FED

    def fed_again(self) -> bool:
        """Feeds the copying once it has come to its end: some moments are over at once, and another must come."""
        if self.length() == self.fed:
            self.feed()
        return False

    def moments(self) -> list[Callable[[], bool]]:
        """What may be waited for before a kill: each is something half done, or just done."""
        store = self.folder / "store"
        before = self.length(), self.batches()
        return [
            lambda: self.length() > before[0],
            lambda: self.batches() > before[1],
            lambda: any(store.glob("staging/*/*.packed")),
            lambda: any(path.name != "done.json" for path in store.glob("commits/*/*.json")),
            lambda: any(self.folder.glob("parquet/*/_temporary")),
        ]

    def length(self) -> int:
        return len(self.store.stream("out"))

    def batches(self) -> int:
        return len(list(self.folder.glob("to-*/offsets/*")))

    def hurt(self, kind: str) -> None:
        """Kills something at a random moment of the copying, and puts it back."""
        self.feed()
        moment = self.chance.randrange(5)
        come = self.moments()[moment]
        # On a busy machine a batch takes long, and a moment that was passed unseen comes with the next one only.
        self.driver.until(lambda: come() or self.fed_again(), MOMENT_LIMIT_S)
        threading.Event().wait(self.chance.random() / 4)  # the moment is random: there is nothing to wait for
        if kind == "driver":
            self.driver.kill()
            self._running.close()
            self.driver = self._start()
        elif kind == "executor":
            self.driver.until(lambda: bool(self.cluster.executors()))
            self.cluster.kill_executor(self.chance.choice(sorted(self.cluster.executors())))
        else:
            self.cluster.kill_worker(self.chance.choice(self.cluster.workers()))
            self.cluster.mend()

    def drain(self) -> None:
        self.driver.tell()
        assert self.driver.hear(300) == "drained"

    def parquet(self) -> Iterator[int]:
        for path in sorted(self.folder.glob("parquet/*/part-*.parquet")):
            yield from pq.read_table(path)["n"].to_pylist()


@pytest.mark.timeout(120 + (60 + MOMENT_LIMIT_S) * KILLS)
def test_each_entry_comes_out_once_and_in_order_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    kinds = (chance.sample(KINDS, 3) if KILLS < 6 else chance.choices(KINDS, [2, 1, 1], k=KILLS))[:KILLS]
    try:
        with Pipeline(cluster, tmp_path, chance) as pipeline:
            for kind in kinds:
                pipeline.hurt(kind)
            pipeline.drain()
            wanted = [2 * number for number in range(pipeline.fed)]
            assert [int(entry[b"n"]) for entry in pipeline.store.stream("out")] == wanted
            assert list(pipeline.parquet()) == wanted
    except BaseException as error:
        error.add_note(f"DISKSTREAM_SPARK_SEED={SEED}, {kinds}")
        raise
