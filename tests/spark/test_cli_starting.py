"""`diskstream spark` before Spark: what is wrong is told at once, and no Java is started for it, nor for nothing.

Spark took 10 seconds to start, and said a page of its own, before a misspelt path was looked at.
"""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.cli.failure import Failure
from diskstream.cli.spark import starting
from diskstream.errors import DiskstreamError
from tests.spark.archives import NO_SPARK, days, fill, in_process
from tests.spark.session import ROOT

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from diskstream.spark.jobs import archive as archive_job  # after what it needs
from diskstream.spark.jobs import java
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.session import reason


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store and its archive, in which commands run."""
    fill(tmp_path / "store", "s", days(1, 10))
    with patch.object(archive_job, "run_tasks", in_process):
        archive_job.run(NO_SPARK, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a Java; whoever starts Spark on it fails the test."""

    def started(*_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(java, "_asked", lambda _: "17")
    monkeypatch.setattr(starting, "_started", started)


def told(*arguments: str) -> Result:
    return CliRunner(env={"DISKSTREAM_DIR": "store", "DISKSTREAM_ARCHIVE": "archive"}).invoke(
        main, ["spark", *arguments]
    )


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.parent.name != "store")


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("archive -d none", 1, "there is no such directory on the driver"),
        ("archive -s none", 1, "the store has no stream 'none'"),
        ("archive -a new --start x", 2, "'x' is no ID"),
        ("archive -a new --end x", 2, "'x' is no ID"),
        ("archive -a new --layout typed", 1, "layout 'typed' needs columns"),
        ("archive -a store", 1, "is a store, or a backup of one"),
        ("archive -a s3://bucket/folder", 2, "in a folder of this machine"),
        ("archive --straem s", 2, "No such option '--straem'"),
        ("archive --conf memory", 2, "'memory' is no KEY=VALUE"),
        ("archive --grace 1s", 1, "60 seconds at least"),
        ("compact -a none", 1, "there is no archive in"),
        ("compact -s none", 1, "has no stream none"),
        ("compact --target-bytes much", 2, "--target-bytes"),
        ("reconcile -a none", 1, "there is no archive in"),
        ("reconcile -s none", 1, "the store has no stream 'none'"),
        ("replay --from none -d new", 2, "'none' does not exist"),
        ("replay --from . -d new", 1, "is neither a store nor an archive"),
        ("replay --from store -d new -s none", 1, "the store has no stream 'none'"),
        ("replay --from archive -d new -s none", 1, "has no stream none"),
        ("replay --from store -d new --start x", 2, "'x' is no ID"),
        ("profile none", 1, "the store has no stream 'none'"),
        ("profile --html none/page.html", 1, "there is no directory none to write page.html into"),
        ("profile --report archive/x/y", 1, "there is no directory archive/x"),
        ("profile --since soon", 2, "'soon' is not a time"),
        ("rollup", 2, "Missing option '-f'"),
        ("rollup -f n none", 1, "the store has no stream 'none'"),
        ("rollup -f n -d none", 1, "there is no such directory on the driver"),
        ("rollup -f n -o none/windows.parquet", 1, "there is no directory none to write windows.parquet into"),
        ("rollup -f n --window 0s", 1, "a window is 1 ms to 366 days long"),
    ],
)
@pytest.mark.usefixtures("no_start")
def test_what_is_wrong_is_told_at_once_and_makes_nothing(here: Path, command: str, status: int, says: str) -> None:
    before = everything(here)
    result = told(*command.split())
    assert (result.exit_code, says in result.stderr) == (status, True), result.output
    assert everything(here) == before


@pytest.mark.usefixtures("no_start", "here")
@pytest.mark.parametrize(
    "command",
    [
        "archive",
        "archive --dry-run",
        "compact",
        "compact --dry-run",
        "replay --from store -d new --dry-run",
        "replay --from archive -d new --dry-run",
        "profile --dry-run",
        "reconcile --dry-run",
        "rollup -f n --dry-run",
    ],
)
def test_where_there_is_nothing_to_do_no_java_is_started(command: str) -> None:
    assert told(*command.split()).exit_code == 0


# --- Java -------------------------------------------------------------------------------------------------------------


def fake_java(home: Path, script: str) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo '    java.specification.version = 11' >&2", "Java 17 or later, but .*java is Java 11"),
        ("echo '    java.specification.version = 1.8' >&2", "is Java 1.8"),
        ("exit 3", "does not say which one it is"),
        (None, "JAVA_HOME is .*, which has no bin/java"),
    ],
)
def test_a_java_that_will_not_do_is_told_with_what_to_install(
    here: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, says: str
) -> None:
    if script is not None:
        fake_java(here / "jdk", script)
    monkeypatch.setenv("JAVA_HOME", str(here / "jdk"))
    with pytest.raises(DiskstreamError, match=f"{says}.*apt-get install openjdk-17"):
        java.check_java()


def test_a_java_that_is_new_enough_is_taken(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(here / "jdk", "echo '    java.specification.version = 21' >&2")
    monkeypatch.setenv("JAVA_HOME", str(here / "jdk"))
    java.check_java()


def test_a_java_that_sparks_own_settings_may_name_is_left_to_spark(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start script reads spark-env.sh before it looks at JAVA_HOME."""
    monkeypatch.setenv("JAVA_HOME", str(here / "jdk"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(here / "conf"))
    with pytest.raises(DiskstreamError, match="no bin/java"):
        java.check_java()
    (here / "conf").mkdir()
    (here / "conf" / "spark-env.sh").write_text("export JAVA_HOME=/opt/jdk\n", encoding="utf-8")
    java.check_java()


@pytest.fixture
def no_java(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "empty").mkdir()
    # Other tests have a session running in this process, which jobs would take.
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PATH", str(here / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    "job", ["archive -a new", "compact", "reconcile", "replay --from store -d new", "profile", "rollup -f n"]
)
def test_without_java_each_job_says_what_to_install_and_does_nothing(here: Path, job: str) -> None:
    before = everything(here)
    result = told(*job.split())
    assert result.exit_code == 1
    assert result.stdout == ""
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: Spark needs Java 17 or later, but there is no java on the path: install it")
    assert hint.startswith("hint: ")
    assert everything(here) == before


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("job", ["archive -a new", "compact", "replay --from store -d new", "profile", "rollup -f n"])
def test_a_dry_run_needs_no_java(job: str) -> None:
    assert told(*job.split(), "--dry-run").exit_code == 0


# --- what Spark says of itself ----------------------------------------------------------------------------------------


def test_what_java_logs_stays_off_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    speak = [sys.executable, "-c", "import sys; sys.stderr.write('WARN Utils: a page of this')"]
    with starting._log(shown=False):
        subprocess.run(speak, check=True)
    subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('ours')"], check=True)
    assert capfd.readouterr().err == "ours"
    with starting._log(shown=True):  # --conf spark.log.level=WARN
        subprocess.run(speak, check=True)
    assert capfd.readouterr().err == "WARN Utils: a page of this"


@pytest.mark.usefixtures("_spark_is_installed")
def test_what_spark_refuses_is_told_in_one_line(here: Path) -> None:
    """In a process of its own: there really is a Java that warns of this and that."""
    command = [sys.executable, "-m", "diskstream", "spark", "profile", "-d", "store", "--master", "nonsense"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        command, cwd=here, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    error, hint = done.stderr.splitlines()
    assert error == "error: Spark could not start: Master must either be yarn or start with spark, k8s, or local"
    assert hint.startswith("hint: ")
    assert (done.returncode, done.stdout) == (1, "")
    with diskstream.open(here / "store") as store:
        assert not list((store.path / "leases").iterdir())


@pytest.mark.parametrize(
    ("logged", "told"),
    [
        (
            b"26/11/30 11:35:22 ERROR DiskBlockManager: Failed to create any local dir.\n",
            "Failed to create any local dir",
        ),
        (b"", "meanwhile; with --conf spark.log.level=WARN it says why"),
    ],
)
def test_a_java_that_ends_as_it_starts_is_told_with_what_it_logged(
    monkeypatch: pytest.MonkeyPatch, logged: bytes, told: str
) -> None:
    """As where it may not write to the folder that it was given; `Error while sending or receiving` was all."""

    def ends(_: object) -> None:
        os.write(2, b"26/11/30 11:35:20 WARN Utils: a page of this\n" + logged)
        raise Py4JNetworkError("Error while sending or receiving")

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # which a start sets
    monkeypatch.setattr(java, "_asked", lambda _: "17")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", ends)
    with pytest.raises(Failure, match=f"Spark could not start: its Java has ended.*{told}"):
        starting._started("profile", "local", {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "An error occurred\n: org.apache.spark.SparkException: Could not parse 'x'\n\tat org.apache",
            "Could not parse 'x'",
        ),
        ("no way\n\nJVM stacktrace:\nCaused by: java.lang.A: too: long\nCaused by: b.C: the cause\n\tat", "the cause"),
        ("[GONE] Java went away", "[GONE] Java went away"),
        ("", "RuntimeError('')"),
    ],
)
def test_of_an_error_of_spark_the_cause_is_told(text: str, told: str) -> None:
    assert reason(RuntimeError(text)) == told
