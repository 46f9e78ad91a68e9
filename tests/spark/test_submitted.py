"""A program of tools/ by spark-submit, on the cluster: it takes the session that spark-submit says, and no other."""

import json
import os
import subprocess
from pathlib import Path
from unittest.mock import patch

import diskstream
from tests.spark import session
from tests.spark.cluster import Cluster


def test_a_job_is_submitted_to_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"v": str(at)} for at in range(100)], ids=[f"{at + 1}-0" for at in range(100)])
    confs = [f"--conf={name}={value}" for name, value in cluster.settings(tmp_path).items() if name != "spark.master"]
    with patch.dict(os.environ, session.environment(), clear=True):
        done = subprocess.run(
            [
                session.spark_home() / "bin" / "spark-submit",
                *("--master", cluster.url, *confs),
                session.ROOT / "tools" / "spark_rollup.py",
                *("-d", tmp_path / "store", "-f", "v", "--window", "1s", "-o", tmp_path / "out.parquet", "--json"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["entries"], made["windows"], made["fields"]["v"]["values"]) == (100, 1, 100)
    assert (tmp_path / "out.parquet").exists()
    assert "Registered app diskstream rollup " in (cluster.folder / "master.log").read_text()
