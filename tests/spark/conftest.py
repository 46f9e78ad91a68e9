"""What the Spark tests stand on: one local session, one cluster. Both start when they are first asked for.

They are of scope `package`, not `session`: they end with the last test of this folder, so that no JVM runs beside
the tests that come after, and no thread of theirs is there when those fork.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark import process_tree, session
from tests.spark.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_missing = functools.cache(session.what_is_missing)


@pytest.fixture(scope="package")
def _spark_is_installed() -> None:
    if missing := _missing():
        pytest.skip(missing)


@pytest.fixture(autouse=True, scope="module")
def _functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sends what a test module defines to the tasks whole: by the name that pytest gives it, they cannot import it."""
    if _missing():
        yield
        return
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
    yield
    cloudpickle.unregister_pickle_by_value(request.module)  # type: ignore[no-untyped-call]  # pyspark's copy is untyped


@pytest.fixture(scope="package")
def spark(_spark_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A local session of two threads; a task that fails is tried three times."""
    started = session.start(session.settings(tmp_path_factory.mktemp("spark"), "local[2,3]"))
    try:
        yield started
    finally:
        session.stop(started)


@pytest.fixture(scope="package")
def _cluster(_spark_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not process_tree.PROC.is_dir():
        pytest.skip("needs /proc, to find the processes of a cluster")
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """A master and two workers. Workers that an earlier test has killed are there again."""
    _cluster.mend()
    return _cluster
