"""Exports into a directory: parts, and going on after a kill at any point without losing or doubling an entry."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.checked_json import with_check
from diskstream.cli import export_files, main
from tests.engine.children import child
from tests.exporting.few import export_short
from tests.exporting.stored import numbered, rows_in, table_of

Run = Callable[..., Result]
ENTRIES = 12_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("parts") / "store"
    numbered(made, ENTRIES)
    return made


def export(path: Path, target: Path, *words: str, code: int = 0) -> Result:
    whole = ["export", "s", "-o", str(target), "-d", str(path), "--rows-per-file", "1000", *words]
    done = CliRunner().invoke(main, whole)
    assert done.exit_code == code, done.output
    return done


def parts(target: Path) -> list[Path]:
    return sorted(target.glob("part-*"))


def numbers_in(target: Path) -> list[str]:
    return [entry_id for part in parts(target) for entry_id, _ in rows_in(part)]


def test_parts_have_so_many_rows_and_are_listed(path: Path, tmp_path: Path) -> None:
    done = export(path, tmp_path / "out", "--format", "parquet", "--json")
    report = json.loads(done.stdout)
    assert (report["entries"], report["files"], report["missing"]) == (ENTRIES, 12, 0)
    assert [table_of(part).num_rows for part in parts(tmp_path / "out")] == [1000] * 12
    first, *listed, last = map(json.loads, (tmp_path / "out" / "export.jsonl").read_text().splitlines())
    assert first["given"]["format"] == "parquet"
    assert [each["file"] for each in listed] == [part.name for part in parts(tmp_path / "out")]
    assert [each["size_bytes"] for each in listed] == [part.stat().st_size for part in parts(tmp_path / "out")]
    assert (listed[1]["first"], listed[1]["last"]) == ("1001-0", "2000-0")
    assert last == with_check({"complete": True, "entries": ENTRIES, "files": 12})


def test_once_complete_it_is_left_alone(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "out")
    before = {part: part.stat().st_mtime_ns for part in parts(tmp_path / "out")}
    assert "complete since a run before" in export(path, tmp_path / "out").stdout
    assert {part: part.stat().st_mtime_ns for part in parts(tmp_path / "out")} == before


KILLED_AFTER = """
import os, signal, sys
from diskstream.cli import main
import diskstream.exporting.{module} as module
calls = [0]
def dying(owner, name):
    whole = getattr(owner, name)
    def call(*args, **kwargs):
        calls[0] += 1
        if calls[0] > int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*args, **kwargs)
    setattr(owner, name, call)
dying({owner}, {name!r})
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("module", "owner", "name", "step"),
    [
        ("placing", "module", "_put", 3),  # a part is whole and has no name
        ("placing", "module.os", "fsync", 7),  # of parts, of the manifest, of the directory
        ("manifest", "module.Manifest", "_append", 4),  # a part has its name and is not noted
        ("pieces", "module.Stream", "scan", 9),  # in the midst of reading
    ],
)
def test_one_that_is_killed_again_and_again_loses_and_doubles_nothing(
    path: Path, tmp_path: Path, module: str, owner: str, name: str, step: int
) -> None:
    target = tmp_path / "out"
    program = KILLED_AFTER.format(module=module, owner=owner, name=name)
    words = ["export", "s", "-o", str(target), "-d", str(path), "--rows-per-file", "2500", "--format", "jsonl"]
    kills = 0
    for _ in range(15):
        done = subprocess.run([sys.executable, "-c", program, str(step), *words], capture_output=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
    else:
        assert main(words, standalone_mode=False) is None
    assert kills >= 1
    assert numbers_in(target) == [f"{number}-0" for number in range(1, ENTRIES + 1)]
    assert {each.name for each in target.iterdir()} == {"export.jsonl", *(part.name for part in parts(target))}


@pytest.mark.parametrize(
    ("module", "owner", "name", "step"),
    [("placing", "module.os", "fsync", 0), ("placing", "module", "_put", 0), ("pieces", "module.Stream", "scan", 3)],
)
def test_a_single_file_is_there_whole_or_not_at_all(
    path: Path, tmp_path: Path, module: str, owner: str, name: str, step: int
) -> None:
    program = KILLED_AFTER.format(module=module, owner=owner, name=name)
    target = tmp_path / "x.jsonl"
    words = ["export", "s", "-o", str(target), "-d", str(path)]
    done = subprocess.run([sys.executable, "-c", program, str(step), *words], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [each.name for each in tmp_path.iterdir()] == [".x.jsonl.partial"]
    assert main(words, standalone_mode=False) is None
    assert len(list(rows_in(target))) == ENTRIES
    assert list(tmp_path.iterdir()) == [target]


def test_a_line_that_was_being_written_counts_for_nothing(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    export(path, target)
    manifest = target / "export.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    for cut in (0, 5, len(lines[0]) - 1, len(lines[0]), len(lines[0]) + 20):
        manifest.write_bytes(b"".join(lines)[:cut])
        export(path, target)
        assert manifest.read_bytes().splitlines()[1:] == [line.rstrip(b"\n") for line in lines[1:]]
        assert numbers_in(target) == [f"{number}-0" for number in range(1, ENTRIES + 1)]


def test_what_was_added_meanwhile_is_of_the_next_export(tmp_path: Path) -> None:
    numbered(tmp_path / "store", 2500)
    interrupted(tmp_path / "store", tmp_path / "out")
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 9}, id="9999-0")
    done = json.loads(export(tmp_path / "store", tmp_path / "out", "--json").stdout)
    assert (done["entries"], done["resumed_entries"]) == (2500, 1000)
    assert numbers_in(tmp_path / "out")[-1] == "2500-0"


def test_what_was_trimmed_meanwhile_is_told_of(tmp_path: Path) -> None:
    numbered(tmp_path / "store", 2500)
    interrupted(tmp_path / "store", tmp_path / "out")
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(minid="1501-0")
    done = export(tmp_path / "store", tmp_path / "out")
    assert "500 entries were trimmed or deleted while this went on" in done.stderr
    assert numbers_in(tmp_path / "out") == [f"{n}-0" for n in chain(range(1, 1001), range(1501, 2501))]


def interrupted(path: Path, target: Path) -> None:
    """An export that has one part."""
    export(path, target)
    manifest = target / "export.jsonl"
    manifest.write_bytes(b"".join(manifest.read_bytes().splitlines(keepends=True)[:2]))


def test_a_stream_that_was_made_anew_is_not_taken_for_the_same(tmp_path: Path) -> None:
    numbered(tmp_path / "store", 2500)
    interrupted(tmp_path / "store", tmp_path / "out")
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
        store.stream("s").add({"n": 1}, id="5000-0")
    assert "made anew" in export(tmp_path / "store", tmp_path / "out", code=1).stderr


def test_one_that_is_complete_is_not_said_to_be_of_a_stream_made_anew(tmp_path: Path) -> None:
    for store in ("store", "other"):
        with diskstream.open(tmp_path / store) as other:
            other.stream("s").add({"of": store})
    export(tmp_path / "store", tmp_path / "out")
    before = [part.read_bytes() for part in parts(tmp_path / "out")]
    assert "made anew" in export(tmp_path / "other", tmp_path / "out", code=1).stderr
    assert [part.read_bytes() for part in parts(tmp_path / "out")] == before
    assert "complete since" in export(tmp_path / "store", tmp_path / "out").stdout


@pytest.mark.parametrize("words", [["--format", "csv"], ["--end", "7"], ["--compression", "gzip"], ["--columns", "n"]])
def test_another_export_does_not_go_on_with_this_one(path: Path, tmp_path: Path, words: list[str]) -> None:
    export(path, tmp_path / "out")
    assert "was begun with" in export(path, tmp_path / "out", *words, code=1).stderr


def test_a_time_that_moves_on_does_not_make_it_another_one(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"n": number} for number in range(2500)])
    export(tmp_path / "store", tmp_path / "out", "--since", "1h")
    assert "complete since" in export(tmp_path / "store", tmp_path / "out", "--since", "1h").stdout
    assert "begun with" in export(tmp_path / "store", tmp_path / "out", "--since", "2h", code=1).stderr


def test_a_span_that_begins_behind_the_end_is_refused_unless_it_began_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that no entries were exported, and that this was complete; of one that is gone on with time moves on."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"n": n} for n in range(4)], ids=[f"{1000 * n}-0" for n in range(1, 5)])
    words = ("--since", "2s", "--end", "3000-0")
    began = iter(["7000-0", "2000-0", "7000-0"])
    monkeypatch.setattr(export_files, "since", lambda _: next(began))
    refused = export(tmp_path / "store", tmp_path / "out", *words, code=1)
    assert "the range is reversed" in " ".join(refused.stderr.split())
    assert export(tmp_path / "store", tmp_path / "out", *words).stdout.startswith("2 entries")
    assert "complete since a run before" in export(tmp_path / "store", tmp_path / "out", *words).stdout


@pytest.mark.parametrize("begin", [interrupted, export])
def test_a_part_that_is_gone_or_cut_is_told_of(
    path: Path, tmp_path: Path, begin: Callable[[Path, Path], object]
) -> None:
    """Of an export that had come to its end nobody looked: it was complete, with a part that was not there."""
    begin(path, tmp_path / "out")
    (part, *_) = parts(tmp_path / "out")
    os.truncate(part, 10)
    assert "has 10 bytes" in export(path, tmp_path / "out", code=1).stderr
    part.unlink()
    assert "is missing" in export(path, tmp_path / "out", code=1).stderr


@pytest.mark.parametrize(
    "line", [b"[1]\n", b"{}\n", b'{"diskstream_export": 1}\n', b"\xff\n", b'{"diskstream_export": 9, "given": {}}\n']
)
def test_a_manifest_that_is_none_is_refused(path: Path, tmp_path: Path, line: bytes) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "export.jsonl").write_bytes(line)
    assert "error: " in export(path, tmp_path / "out", code=1).stderr


@pytest.mark.parametrize(
    ("there", "changed"), [(b'"1000-0"', b'"1008-0"'), (b'"entries": 1000', b'"entries": 1001'), (b'"s"', b'"t"')]
)
def test_a_digit_that_is_another_is_found(path: Path, tmp_path: Path, there: bytes, changed: bytes) -> None:
    """It was believed: behind an ID that a disk had changed the export went on, and was complete with a gap in it."""
    interrupted(path, tmp_path / "out")
    manifest = tmp_path / "out" / "export.jsonl"
    first, second = manifest.read_bytes().splitlines(keepends=True)
    assert there in second
    manifest.write_bytes(first + second.replace(there, changed))
    assert "line 2" in export(path, tmp_path / "out", code=1).stderr
    manifest.write_bytes(first + second + second)
    assert "line 3" in export(path, tmp_path / "out", code=1).stderr


def test_a_part_by_a_path_that_leads_elsewhere_is_refused(path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "out")
    manifest = tmp_path / "out" / "export.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b'"part-', b'"../part-'))
    assert "line 2" in export(path, tmp_path / "out", code=1).stderr


def test_a_directory_with_something_else_in_it_is_left_alone(path: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear", encoding="utf-8")
    assert "holds 'letters', and no export" in export(path, tmp_path, code=1).stderr
    assert (tmp_path / "letters").read_text(encoding="utf-8") == "dear"


def test_the_second_of_two_at_once_says_so(path: Path, tmp_path: Path) -> None:
    from diskstream.exporting.manifest import Manifest

    with Manifest.open(tmp_path / "out"):
        assert "another export is writing" in export(path, tmp_path / "out", code=1).stderr


def test_several_streams_are_told_apart(tmp_path: Path) -> None:
    numbered(tmp_path / "store", 1500, "one")
    numbered(tmp_path / "store", 700, "two")
    words = [
        "-o",
        str(tmp_path / "out"),
        "-d",
        str(tmp_path / "store"),
        "--rows-per-file",
        "1000",
        "--format",
        "parquet",
    ]
    done = CliRunner().invoke(main, ["export", "one", "two", *words])
    assert done.exit_code == 0, done.output
    tables = [table_of(part) for part in parts(tmp_path / "out")]
    assert [table.num_rows for table in tables] == [1000, 500, 700]
    assert [table["stream"].unique().to_pylist() for table in tables] == [[b"one"], [b"one"], [b"two"]]


def test_of_a_later_format_nothing_is_cut_off(path: Path, tmp_path: Path) -> None:
    """What stood behind its last newline was gone before its first line was read."""
    export(path, tmp_path / "out")
    manifest = tmp_path / "out" / "export.jsonl"
    first, *rest = manifest.read_bytes().splitlines(keepends=True)
    first = first.replace(b'"diskstream_export": 1', b'"diskstream_export": 2')
    manifest.write_bytes(b"".join([first, *rest, b'{"file": "part']))
    before = manifest.read_bytes()
    assert "upgrade" in export(path, tmp_path / "out", code=1).output
    assert manifest.read_bytes() == before


def test_parts_of_more_streams_than_there_are_descriptors_for_are_written(tmp_path: Path) -> None:
    """The streams that are kept open left none for the part: other files are asked for, and those give way."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for number in range(20):
            store.stream(f"s{number}").add({"n": 1})
        store.seal()
    limits = list(range(44, 48))  # whether one is left for each part depends on how many are let go of at a time
    with child(export_short, tmp_path / "s", tmp_path, limits) as exporting:
        assert [exporting.hear() for _ in limits] == ["20"] * len(limits)
