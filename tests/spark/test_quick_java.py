"""That the JVMs of tests find Spark's classes in the file made for them: where they do not, they are merely slow."""

import subprocess
from pathlib import Path

import pytest

from tests.spark import quick_java, session


@pytest.mark.usefixtures("_spark_is_installed")
def test_spark_takes_its_classes_from_the_file(tmp_path: Path) -> None:
    path = quick_java.archive()
    if path is None or not path.is_file():
        pytest.skip("the file was not made: make .venv/.stamps/classes")
    told = tmp_path / "classes"
    given = {"SPARK_SUBMIT_OPTS": f"{quick_java.options()} -Xlog:class+load:file={told}"}
    submit = session.spark_home() / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--version"], env=session.environment() | given, capture_output=True, text=True, check=True
    )
    assert str(path) not in done.stdout + done.stderr
    loaded = [line for line in told.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit source: " in line]
    assert [line.partition(" source: ")[2] for line in loaded] == ["shared objects file (top)"]
