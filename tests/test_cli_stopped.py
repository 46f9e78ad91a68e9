"""Long work that is told to end, by Ctrl-C or by a manager of services: one line, a way on, and nothing half made."""

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.cli.backup.verify import command as backup_verify
from diskstream.cli.cold.move import command as cold_move
from diskstream.cli.stopping import told_to_end

ROWS = 4_000
# The last one comes where a terminal goes, as with a connection that is lost.
TOLD = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# Whoever runs the tests in the background may have them ignore SIGINT, or SIGHUP, and children inherit that.
HEARS_SIGINT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from diskstream.cli import main
main()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "store", fsync="os") as filled:
        filled.stream("s").add_many([{"n": number, "text": "x" * 200} for number in range(ROWS)])
    return tmp_path / "store"


def stopped(number: signal.Signals, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The verb, sent the signal once it has made something at its place."""
    program = [sys.executable, "-c", HEARS_SIGINT, *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not any(place.iterdir()):
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(program, process.returncode, out, err)


@pytest.mark.parametrize("number", TOLD)
def test_a_backup_that_is_stopped_says_that_the_next_one_goes_on(
    tmp_path: Path, store: Path, number: signal.Signals
) -> None:
    place = tmp_path / "backups"
    place.mkdir()
    done = stopped(number, place, "backup", str(place), "--dir", str(store), "--rate", "20kB")
    assert done.returncode == 1, done.stderr
    assert "error: it was stopped before it was done" in done.stderr
    assert "hint: run it again" in done.stderr
    assert "Traceback" not in done.stderr
    again = subprocess.run(
        [sys.executable, "-m", "diskstream", "backup", str(place), "--dir", str(store)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert f"{ROWS:,} entries" in again.stdout


@pytest.mark.parametrize("number", TOLD)
def test_an_export_that_is_stopped_leaves_nothing_half_made(
    tmp_path: Path, store: Path, number: signal.Signals
) -> None:
    with diskstream.open(store, fsync="os") as filled:
        for _ in range(80):  # long enough to be met in its midst
            filled.stream("s").add_many([{"n": number, "text": "x" * 200} for number in range(ROWS)])
    place = tmp_path / "place"
    place.mkdir()
    done = stopped(number, place, "export", "s", "--dir", str(store), "-o", str(place / "out.csv"))
    assert done.returncode == 1, done.stderr
    assert "error: it was stopped before it was done" in done.stderr
    assert "hint: run it again" in done.stderr
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_somebody_has_ignored_stays_so(number: signal.Signals) -> None:
    """As `nohup` has SIGHUP: what runs on without its terminal is not ended."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with told_to_end():
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("verb", "words", "hint"),
    [
        (backup_verify, ["backup", "verify", "backups"], "run it again\n"),
        (cold_move, ["cold", "move", "--dir", ".", "--to", "file:///x"], "run it again: what was moved is\n"),
    ],
    ids=["backup verify", "cold move"],
)
def test_each_verb_of_several_has_a_way_on_of_its_own(
    verb: click.Command, words: list[str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To verify backups took over what was copied, it said; to move segments had no way on."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "callback", interrupted)
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr.partition("hint: ")[2]) == (1, hint)


def test_a_verb_for_which_there_is_no_memory_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It printed where in the code that was."""

    def starved(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("diskstream.cli.compact.command.callback", starved)
    done = CliRunner().invoke(main, ["compact", "--dir", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: there is no memory for this\nhint: see what bounds it (ulimit -v")
