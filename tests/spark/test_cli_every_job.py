"""`diskstream spark`, job by job: a dry run changes nothing, `--json` is one object, and a pipe gets no progress."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from diskstream.cli import main
from tests.spark.archives import BASE, DAY, NO_SPARK, fill, in_process

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from diskstream.spark.jobs import archive, watching
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Facts = dict[str, Any]
# What each says in JSON once it is done: of two streams with 30 entries each, of which 20 are archived, in two files.
JOBS: dict[str, tuple[str, Callable[[Facts], object]]] = {
    "archive": ("archive", lambda facts: facts["entries"] == 20 and facts["version"] == 3 and facts["verified"]),
    "compact": ("compact", lambda facts: (facts["files_before"], facts["merged"], facts["rows"]) == (4, 4, 40)),
    "reconcile": (
        "reconcile",
        lambda facts: facts["ok"] and [each["archived"] for each in facts["streams"]] == [20, 20],
    ),
    "replay": ("replay --from store -d new", lambda facts: (facts["entries"], facts["streams"]) == (60, 2)),
    "replay of an archive": ("replay --from archive -d new", lambda facts: facts["entries"] == 40),
    "profile": ("profile", lambda facts: [each["entries"] for each in facts["streams"]] == [30, 30]),
    "rollup": ("rollup -f n --window 1d", lambda facts: (facts["entries"], facts["windows"]) == (60, 2)),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store and its archive, in which commands run."""
    monkeypatch.chdir(tmp_path)
    store, root = tmp_path / "store", tmp_path / "archive"
    for first in range(0, 30, 10):
        at = [BASE + day * DAY + 1000 * number for day in range(2) for number in range(first, first + 10)]
        for day in range(2):
            fill(store, f"s{day}", [(f"{ms}-0", {"n": "1"}) for ms in at[10 * day : 10 * day + 10]])
        if first < 20:
            with patch.object(archive, "run_tasks", in_process):
                archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
    return tmp_path


def told(*arguments: str) -> Result:
    return CliRunner(env={"DISKSTREAM_DIR": "store", "DISKSTREAM_ARCHIVE": "archive"}).invoke(
        main, ["spark", *arguments]
    )


def everything(folder: Path) -> dict[str, bytes]:
    """All files, but for the control page, which whoever opens a store has touched."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "ctl"
    }


@pytest.mark.parametrize("job", JOBS)
def test_a_dry_run_says_what_would_be_done_and_changes_nothing(here: Path, job: str) -> None:
    command, _ = JOBS[job]
    before = everything(here)
    result = told(*command.split(), "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "would" in result.stdout or result.stdout.startswith("up to")
    result = told(*command.split(), "--dry-run", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["dry_run"] is True
    assert everything(here) == before


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("job", JOBS)
def test_in_json_each_job_is_one_object_and_nothing_beside_it(spark: "SparkSession", job: str) -> None:
    """On Spark: the session of this process is the one that jobs take."""
    command, right = JOBS[job]
    result = told(*command.split(), "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    assert right(json.loads(line)), line


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("job", JOBS)
def test_for_people_each_job_says_what_it_did_and_a_pipe_gets_no_progress(spark: "SparkSession", job: str) -> None:
    command, _ = JOBS[job]
    result = told(*command.split())
    assert result.exit_code == 0
    assert result.stdout.strip()
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    garbage = (
        "4 files of older versions or killed jobs wait for the end of the grace time: " if job == "compact" else ""
    )
    assert result.stderr.startswith(garbage)
    assert len(result.stderr.splitlines()) == bool(garbage)


# --- progress ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "quiet", "shown"),
    [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)],
    ids=["on a terminal", "on a terminal, told to be quiet", "in a pipe"],
)
def test_progress_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, quiet: bool, shown: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    tracker = SimpleNamespace(getActiveJobsIds=list)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with watched(spark, "archiving", 3, quiet=quiet):
        pass
    assert ("archiving" in stderr.getvalue()) == shown
    assert shown or stderr.getvalue() == ""


def test_a_server_says_how_far_its_tasks_are() -> None:
    """`registerProgressHandler` of Spark Connect: it calls with names, and with no stages at first."""
    handlers: list[Any] = []
    spark: Any = SimpleNamespace(registerProgressHandler=handlers.append, removeProgressHandler=handlers.remove)
    with watching._reported(spark) as finished:
        (heard,) = handlers
        counts = [finished()]
        for stages in (None, [], [SimpleNamespace(num_completed_tasks=n) for n in (2, 3)]):
            heard(stages=stages, inflight_tasks=1, operation_id="an operation", done=False)
            counts.append(finished())
    assert counts == [0, 0, 0, 5]
    assert handlers == []
