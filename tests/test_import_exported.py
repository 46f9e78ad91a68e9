"""An export that is imported without `--format entries`: it is told from other JSON lines, and nothing is guessed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.ingest.entry_rows import is_exported

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store with a stream `s`."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"a": 1, "b": "x"}, {"a": 2}], ids=["5-1", "7-0"])

    def run_verb(*words: str, code: int = 0, given: bytes | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
        assert result.exit_code == code, result.output
        return result

    return run_verb


def test_an_export_is_refused_until_it_is_said_how_to_read_it(run: Run, tmp_path: Path) -> None:
    """It became a stream of new IDs, each entry with a field `fields` that held the others as text."""
    file = str(tmp_path / "x.jsonl")
    run("export", "s", "-o", file)
    told = " ".join(run("import", file, "-s", "copy", code=1).stderr.split())
    assert "holds entries as diskstream export writes them" in told
    assert "hint: nothing was imported; --format entries keeps their IDs" in told
    assert run("ls").stdout.count("\n") == 2  # the heading, and s
    run("import", file, "-s", "copy", "--format", "entries")
    assert run("range", "copy").stdout == run("range", "s").stdout
    run("import", file, "-s", "rows", "--format", "jsonl")
    assert "fields=" in run("range", "rows").stdout


def test_so_is_one_that_comes_through_a_pipe(run: Run) -> None:
    printed = run("range", "s", "--json").stdout_bytes
    assert "--format entries" in run("import", "-", "-s", "copy", given=printed, code=1).stderr
    run("import", "-", "-s", "copy", "--format", "entries", given=printed)
    assert run("len", "copy").stdout == "2\n"


@pytest.mark.parametrize(("kind", "options"), [("jsonl", "--format entries"), ("csv", "--id id"), ("arrow", "")])
def test_an_export_of_several_streams_is_said_to_be_none_of_one(
    run: Run, tmp_path: Path, kind: str, options: str
) -> None:
    """Whoever imported it into a stream of its own was told to import it into a stream of its own."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("t").add({"a": 3}, id="6-0")
    file = str(tmp_path / f"both.{kind}")
    run("export", "s", "t", "-o", file)
    told = " ".join(run("import", file, "-s", "new", *options.split(), code=1).stderr.split())
    assert "that of the row before it" in told
    assert "the IDs of rows have to go up; where this is an export of several streams, export each by itself" in told
    assert "a stream of its own" not in told
    run("export", "s", "-o", file, "--force")
    told = " ".join(run("import", file, "-s", "t", *options.split(), code=1).stderr.split())
    assert "import it into a stream of its own" in told


@pytest.mark.parametrize("file_format", ["auto", "entries", "jsonl"])
@pytest.mark.parametrize("parts", ["jsonl", "csv", "arrow"])
def test_the_list_of_an_export_in_parts_is_no_part(run: Run, tmp_path: Path, parts: str, file_format: str) -> None:
    """What `*` names first was told of as a bad entry, or became rows where there was nothing else."""
    directory = tmp_path / "parts"
    run("export", "s", "-o", str(directory), "--format", parts, "--rows-per-file", "1")
    words = ("-s", "copy", "--format", file_format)
    for files in ([str(file) for file in sorted(directory.iterdir())], [str(directory / "export.jsonl")]):
        told = " ".join(run("import", *files, *words, code=1).stderr.split())
        assert "export.jsonl: is the list that an export in parts keeps beside them, and holds no entries" in told
        assert f"hint: nothing was imported; name the parts alone: {directory}/part-*" in told
    assert f"hint: name its files: {directory}/part-*" in run("import", str(directory), *words, code=1).stderr
    assert run("ls").stdout.count("\n") == 2  # the heading, and s


def test_the_parts_of_an_export_are_one_stream(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "parts"
    run("export", "s", "-o", str(directory), "--format", "jsonl", "--rows-per-file", "1")
    run("import", *(str(file) for file in sorted(directory.glob("part-*"))), "-s", "copy", "--format", "entries")
    assert run("range", "copy").stdout == run("range", "s").stdout


def test_an_empty_export_in_parts_is_no_stream_of_its_list(run: Run, tmp_path: Path) -> None:
    """Its one file became an entry, with what had been asked for as fields."""
    directory = tmp_path / "parts"
    run("export", "s", "-o", str(directory), "--format", "jsonl", "--rows-per-file", "1", "--end", "1")
    run("import", *(str(file) for file in directory.iterdir()), "-s", "copy", code=1)
    assert run("ls").stdout.count("\n") == 2


@pytest.mark.parametrize(
    "facts",
    [
        {"id": "PROJ-1", "fields": {"a": "1"}},
        {"id": "5-1", "fields": {"a": 1}},
        {"id": "5-1", "fields": ["a"]},
        {"id": "5-1", "fields": {"a": "1"}, "changelog": {}},
        {"id": 5, "fields": {"a": "1"}},
        {"fields": {"a": "1"}},
    ],
)
def test_what_only_looks_like_it_is_read_as_it_was(run: Run, tmp_path: Path, facts: dict[str, object]) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    run("import", str(tmp_path / "x.jsonl"), "-s", "rows")
    assert run("len", "rows").stdout == "1\n"


@pytest.mark.parametrize("line", [b"", b"{", b"[" * 100_000, b"\xff", b"5-1", b'{"id": "5-1"'])
def test_what_cannot_be_read_is_no_export(line: bytes) -> None:
    assert not is_exported(line)
