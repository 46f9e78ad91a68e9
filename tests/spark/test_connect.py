"""Spark Connect: a client without a JVM of its own reads, writes, streams and runs jobs, by the session of a server.

Jobs asked such a session for its context, and ended with Spark's words about that.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from tests.spark.session import ROOT, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")

ROWS = 3000
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def server(spark: "SparkSession") -> Iterator[str]:
    """The URL by which clients have the session's Spark."""
    jvm: Any = spark._jvm
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    service.start(spark.sparkContext._jsc.sc())
    try:
        yield f"sc://127.0.0.1:{service.localPort()}"
    finally:
        service.stop(*(getattr(service, f"stop$default${number}")() for number in (1, 2)))


@pytest.fixture
def found(server: str, tmp_path: Path) -> dict[str, Any]:
    """What the client says, which has done everything in `tmp_path`."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("readings").add_many(
            [{"sensor": f"s{n % 3}", "value": n / 2} for n in range(ROWS)],
            ids=[f"{FIRST_MS + n}-0" for n in range(ROWS)],
        )
    return client("tests.spark.connected", server, str(tmp_path))


def client(*words: str, **more: str) -> dict[str, Any]:
    """The JSON that a program prints which has no Java."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=environment() | {"TERM": "xterm", "JAVA_HOME": "/nowhere", "PATH": "/nowhere"} | more,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_client_of_a_server_does_all_that_a_driver_does(server: str, found: dict[str, Any], tmp_path: Path) -> None:
    assert found == {
        "rows": ROWS,
        "sum": sum(n / 2 for n in range(ROWS)),
        "streamed": ROWS,
        "archived": ROWS,
        "compacted": 3,
        "groups": ["followers"],
        "progress": True,
        "reconciled": True,
        "replayed": ROWS,
        "windows": 3,
        "windows in time": 2,  # the last one may still get rows
    }
    with diskstream.open(tmp_path / "copies") as store:
        assert len(store.stream("copies")) == ROWS  # written twice, by one transaction
    with diskstream.open(tmp_path / "store") as store:
        (group,) = store.stream("readings").groups()
        assert (group.name, group.lag) == (b"followers", 0)
    query = json.loads((tmp_path / "of-windows" / "metadata").read_text())["id"]
    assert (tmp_path / "windows" / "_query").read_text() == query
    profile = ("diskstream", "spark", "profile", "--dir", str(tmp_path / "store"), "--json")
    by_option, by_variable = client(*profile, "--master", server), client(*profile, SPARK_REMOTE=server)
    assert by_option["streams"][0]["entries"] == by_variable["streams"][0]["entries"] == ROWS
