"""The page for who runs a store: its commands run, its numbers are those of the code, and it has every error."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import ArgumentError, DiskstreamError, errors
from diskstream.cli import main
from diskstream.server.settings import ServerSettings

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with diskstream.open("data") as store:
        store.stream("jobs").add({"n": 1})
        store.stream("jobs").create_group("mailers", "0")
    commands = re.findall(r"^\$ diskstream (.*)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 11
    for command in commands:
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, (command, done.output)


def test_every_error_that_a_running_program_meets_is_on_the_page() -> None:
    """Those of wrong arguments are of programs that are still being written."""
    told = set(re.findall(r"^\| `(\w+Error)` \|", PAGE, flags=re.MULTILINE))
    kinds = [each for each in map(vars(errors).get, errors.__all__) if isinstance(each, type)]
    met = {each.__name__ for each in kinds if not issubclass(each, ArgumentError) and each is not DiskstreamError}
    assert told == met


def test_a_new_stream_takes_as_much_as_the_page_says(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "data") as store:
        store.stream("jobs").add({"n": 1})
        files = [path for path in (tmp_path / "data" / "streams" / "jobs").iterdir() if path.is_file()]
        assert f"from {sum(path.stat().st_size for path in files) >> 10} KiB on" in PAGE


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("keeps {:,} streams open", diskstream.Options().max_open_streams),
        ("the server {:,}", ServerSettings().max_open_streams),
        ("{} MiB of frames", diskstream.Options().segment_bytes >> 20),
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(words: str, number: int) -> None:
    assert words.format(number) in " ".join(PAGE.split())


def test_an_entry_that_kills_its_consumers_is_found_and_done_with_as_the_page_says(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "data") as store:
        jobs = store.stream("jobs")
        deadly = jobs.add({"n": 1})
        group = jobs.group("mailers", start="0")
        for name in ("bob", "eve", "joe"):
            group.consumer(name).read(claim_ms=0)  # and it dies
        jobs.add({"n": 2})
    words = ["--dir", str(tmp_path / "data"), "--json"]
    (found,) = [json.loads(line) for line in called("group", "pending", "jobs", "mailers", *words).splitlines()]
    assert (found["id"], found["consumer"], found["deliveries"]) == (str(deadly), "joe", 3)
    called("group", "claim", "jobs", "mailers", "ann", "--min-idle", "0", *words)
    called("group", "ack", "jobs", "mailers", str(deadly), "--force", *words)
    with diskstream.open(tmp_path / "data") as store:
        ann = store.stream("jobs").group("mailers").consumer("ann")
        assert ann.read("0") == []
        assert [job["n"] for job in ann.read()] == [b"2"]
        assert len(store.stream("jobs")) == 2


def called(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout
