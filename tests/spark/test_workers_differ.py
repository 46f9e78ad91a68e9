"""Workers that have not what the driver has: another diskstream, another Python, or no package at all."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream.errors import DiskstreamError
from tests.spark.staged_rows import LONG, TEXT, options, schema, to_two

pytest.importorskip("pyspark")

from diskstream.spark.jobs.run import run_tasks, told_by
from diskstream.spark.options import ReadOptions
from diskstream.spark.tables import TableReader, table_schema
from diskstream.spark.versions import lacking
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER = r"the driver has diskstream 0\.0\.7, this worker"


def test_a_worker_with_another_version_reads_no_table(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": 1})
    reader = TableReader(ReadOptions(path=str(tmp_path / "s"), table="groups"), table_schema("groups"))
    (partition,) = reader.partitions()
    setattr(partition, "version", "0.0.7")  # noqa: B010  # Spark's class has no such attribute
    with pytest.raises(DiskstreamError, match=OTHER):
        list(reader.read(partition))


@pytest.mark.parametrize("kind", [EntriesWriter, EntriesStreamWriter])
def test_a_worker_with_another_version_stages_nothing(tmp_path: Path, kind: Any) -> None:
    writer = kind(options(path=str(tmp_path / "s")), schema(stream=TEXT, n=LONG), overwrite=False)
    writer.version = "0.0.7"
    with pytest.raises(DiskstreamError, match=OTHER):
        writer.write(iter([to_two([1])]))
    assert not list((tmp_path / "s").glob("staging/*/*"))


def refuses_to_be_read(task: object) -> None:
    raise AssertionError


def test_a_worker_with_another_version_does_no_job(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskstream.spark.jobs.run.versions.VERSION", "0.0.7")
    with pytest.raises(DiskstreamError, match=OTHER) as raised:
        run_tasks(spark, "nothing", [1], refuses_to_be_read, quiet=True)
    assert "\n" not in str(raised.value)


def test_a_job_leaves_no_file_of_its_tasks_on_the_driver(spark: "SparkSession") -> None:
    """Each left one until the session ended."""
    folder: Any = spark.sparkContext._temp_dir

    def files() -> list[Path]:
        return [path for path in Path(folder).rglob("*") if path.is_file()]

    before = files()
    assert run_tasks(spark, "counting", [1, -2, 3], abs) == [1, 2, 3]
    assert files() == before


def test_another_python_is_told_with_both_versions() -> None:
    """Spark looks at it before anything of ours runs."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.worker_util import check_python_version

    with pytest.raises(PySparkRuntimeError) as raised:
        check_python_version("3.9")
    told = told_by(f"Job aborted\nTraceback (most recent call last):\npyspark.errors.X: {raised.value}\n\tat java.A")
    assert told.startswith("the driver has Python 3.9, a worker 3.")
    assert "PYSPARK_PYTHON" in told


def test_a_package_that_a_worker_has_not_is_told_with_how_to_install_it() -> None:
    for package in ("diskstream", "pyarrow", "numpy"):
        told = lacking(f"Traceback\nModuleNotFoundError: No module named '{package}'\n\n\tat org.apache.X")
        assert told is not None
        assert told.startswith(f"a worker has no {package}: pip install 'diskstream[spark]'")
    assert lacking("KeyError: \"No module named 'pandas'\"") is None


def test_of_what_else_goes_wrong_in_a_task_the_last_word_is_told() -> None:
    traces = (
        "Job aborted due to stage failure\nTraceback\nKeyError: 'a'\nTraceback\nOSError: [Errno 5] io\n\n\tat x.Y\n"
    )
    assert told_by(traces) == "Spark gave the job up: OSError: [Errno 5] io"
    assert told_by("Job 0 cancelled\njava.lang.Error: x") == "Spark gave the job up: Job 0 cancelled"
    assert told_by(f"{traces}diskstream.errors.ArgumentError: in our words\n\tat") == "in our words"
