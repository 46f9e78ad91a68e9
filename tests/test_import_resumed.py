"""An import that is interrupted goes on when it is done again: no row twice, none lost, IDs as without that."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.ingest import load

ROWS = 2_000


def rows(path: Path, count: int = ROWS, *, per_ms: int = 3) -> Path:
    path.write_text("ms,value\n" + "".join(f"{1_000_000 + at // per_ms},v{at}\n" for at in range(count)))
    return path


def run(directory: Path, *words: object, code: int = 0) -> dict[str, object]:
    arguments = ["import", "--dir", str(directory), "--stream", "s", "--batch", "50", "--json", *map(str, words)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, (result.output, result.exception)
    return dict(json.loads(result.stdout)) if result.stdout else {}


def entries(directory: Path) -> list[tuple[str, bytes]]:
    with diskstream.open(directory, read_only=True) as store:
        return [(str(entry.id), entry[b"value"]) for entry in store.stream("s")]


def interrupted(
    monkeypatch: pytest.MonkeyPatch, directory: Path, after: int, *words: object, call: str = "add_many"
) -> None:
    """Dies behind so many batches."""
    real, left = getattr(diskstream.Stream, call), [after]

    def add(*given: object, **named: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(diskstream.Stream, call, add)
        run(directory, *words, code=1)


TIMED = ("--timestamp", "ms", "--timestamp-format", "epoch-ms")


@pytest.mark.parametrize("disorder", ["sort", "clamp", "error"])
@pytest.mark.parametrize("after", [1, 7, 39])
def test_it_goes_on_where_it_stopped_with_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disorder: str, after: int
) -> None:
    """Refused with times as IDs, since the first rows lie before what had been imported; and doubled without."""
    file, words = rows(tmp_path / "rows.csv"), (*TIMED, "--disorder", disorder)
    run(tmp_path / "whole", file, *words)
    interrupted(monkeypatch, tmp_path / "store", after, file, *words)
    assert len(entries(tmp_path / "store")) == after * 50
    report = run(tmp_path / "store", file, *words, "--check")
    assert (report["resumed"], report["rows"]) == (after * 50, ROWS - after * 50)
    assert entries(tmp_path / "store") == entries(tmp_path / "whole")


def test_what_the_stream_held_before_is_minded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamped rows follow what was there when the import began, and not what it had imported itself."""
    file, words = rows(tmp_path / "rows.csv"), (*TIMED, "--disorder", "clamp")
    for name in ("whole", "store"):
        with diskstream.open(tmp_path / name) as store:
            store.stream("s").add({"value": "before"}, "1000100-7")
    run(tmp_path / "whole", file, *words)
    interrupted(monkeypatch, tmp_path / "store", 3, file, *words)
    run(tmp_path / "store", file, *words)
    assert entries(tmp_path / "store") == entries(tmp_path / "whole")


def test_without_times_no_row_comes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rows(tmp_path / "rows.csv")
    for after in (5, 11):
        interrupted(monkeypatch, tmp_path / "store", after, file)
    assert run(tmp_path / "store", file)["resumed"] == 16 * 50
    assert [value for _, value in entries(tmp_path / "store")] == [b"v%d" % at for at in range(ROWS)]


def test_what_came_to_its_end_is_imported_once_more(tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.csv", 100)
    assert [run(tmp_path / "store", file)["rows"] for _ in range(3)] == [100, 100, 100]
    assert len(entries(tmp_path / "store")) == 300


def test_another_way_and_again_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rows(tmp_path / "rows.csv", 200)
    interrupted(monkeypatch, tmp_path / "store", 2, file)
    assert run(tmp_path / "store", file, "--file-field", "f")["resumed"] == 0
    assert run(tmp_path / "store", file, "--again")["resumed"] == 0


@pytest.mark.parametrize("stream", ["s", "{stem}"])
def test_other_files_do_not_bring_those_that_are_there_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """Where a pattern meant one file more by then, all that had been imported was there twice, with status 0."""
    first, second = rows(tmp_path / "s.csv", 200), rows(tmp_path / "t.csv", 200)
    words = ("--stream", stream, first)
    interrupted(monkeypatch, tmp_path / "store", 2, *words, rows(tmp_path / "u.csv", 200))

    def done(*more: object, code: int = 0) -> str:
        whole = ["import", "--dir", str(tmp_path / "store"), "--batch", "50", *map(str, (*words, *more))]
        result = CliRunner().invoke(main, whole)
        assert result.exit_code == code, result.output
        return " ".join(result.stderr.split())

    told = done(second, code=1)
    others = " and 1 other file" if stream == "s" else ""
    assert f"an import of {first}{others} was interrupted, or is under way, and has added 100 rows" in told
    assert len(entries(tmp_path / "store")) == 100
    run(tmp_path / "store", second)  # which was not in it
    done(tmp_path / "u.csv")
    assert len(entries(tmp_path / "store")) == (600 if stream == "s" else 400)
    done(second)  # nothing is left to be gone on with
    assert not list((tmp_path / "store" / "imports").iterdir())


NO_NAMES: list[Any] = [None, 7, [], {}]


@pytest.mark.parametrize(
    "forged",
    [
        *({member: given} for member in ("stream", "key", "files") for given in NO_NAMES),
        *({"files": [given]} for given in NO_NAMES),
        {"key": "\ud800"},
        {"whole": None},
        "[" * 100_000,
    ],
    ids=lambda forged: str(forged)[:20],
)
def test_a_note_that_says_what_none_can_say_keeps_nobody_from_anything(tmp_path: Path, forged: Any) -> None:
    """Each ended every import into its store with a Python error."""
    file = rows(tmp_path / "s.csv", 20)
    notes = tmp_path / "store" / "imports"
    run(tmp_path / "store", file)
    facts = {"stream": "s", "key": "k", "whole": "w", "files": [str(file)]}
    (notes / f"{'a' * 64}.json").write_text(forged if isinstance(forged, str) else json.dumps({**facts, **forged}))
    run(tmp_path / "store", file)
    assert len(entries(tmp_path / "store")) == 40


def test_what_ends_before_its_first_row_leaves_nothing_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused file left one of its own in the store, for ever."""
    bad, good = tmp_path / "s.csv", rows(tmp_path / "t.csv", 200)
    bad.write_text("a,b\n1\n")
    run(tmp_path / "store", bad, code=1)
    interrupted(monkeypatch, tmp_path / "store", 0, good)
    assert list((tmp_path / "store" / "imports").iterdir()) == []
    interrupted(monkeypatch, tmp_path / "store", 1, good)
    assert len(list((tmp_path / "store" / "imports").iterdir())) == 1
    assert run(tmp_path / "store", good)["resumed"] == 50


def test_what_is_imported_again_beside_it_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = rows(tmp_path / "s.csv", 200), rows(tmp_path / "t.csv", 200)
    interrupted(monkeypatch, tmp_path / "store", 2, first)
    run(tmp_path / "store", first, second, "--again")
    assert len(entries(tmp_path / "store")) == 500
    run(tmp_path / "store", first, second)
    assert len(entries(tmp_path / "store")) == 900


def test_tables_go_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"value": [f"v{at}" for at in range(30_000)]})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    interrupted(monkeypatch, tmp_path / "store", 12, tmp_path / "t.arrow", call="add_arrow")
    report = run(tmp_path / "store", tmp_path / "t.arrow")
    assert (report["resumed"], report["rows"]) == (12_000, 18_000)
    assert [value for _, value in entries(tmp_path / "store")] == [b"v%d" % at for at in range(30_000)]


def test_a_table_that_keeps_its_size_and_time_is_told_by_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written over it, as `cp --preserve` does, was gone on with as if it were the rest."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"value": [f"a{at:06}" for at in range(200_000)]}), file, compression="none")
    status = file.stat()
    interrupted(monkeypatch, tmp_path / "store", 3, file, call="add_arrow")
    pq.write_table(pa.table({"value": [f"b{at:06}" for at in range(200_000)]}), file, compression="none")
    assert file.stat().st_size == status.st_size
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    run(tmp_path / "store", file, code=1)
    assert len(entries(tmp_path / "store")) == 3 * 8192


@pytest.mark.parametrize(("name", "call"), [("rows.csv", "add_many"), ("t.arrow", "add_arrow")])
def test_two_of_the_same_at_once_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str
) -> None:
    """In batches of other sizes each went on behind the other, and both added the rows in between."""
    pa = pytest.importorskip("pyarrow")
    file, store = tmp_path / name, tmp_path / "store"
    if call == "add_many":
        rows(file, 200)
    else:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, pa.schema({"value": pa.string()})) as writer:
            for _ in range(3):
                writer.write_batch(pa.record_batch({"value": ["v"] * 66}))
    real, said, count = getattr(diskstream.Stream, call), list[str](), [0]

    def add(*given: object, **named: object) -> object:
        count[0] += 1
        if count[0] == 2 and not said:
            words = ["import", "--dir", str(store), "--stream", "s", "--batch", "30", str(file)]
            said.append(CliRunner().invoke(main, words).stderr)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(diskstream.Stream, call, add)
        run(store, file)
    assert f"process {os.getpid()} on " in said[0]
    assert "imports the same into it just now" in said[0]
    assert len(entries(store)) in (198, 200)
    assert list((store / "imports").iterdir()) == []
    run(store, file)  # once more, as ever
    assert len(entries(store)) in (396, 400)


def test_killed_at_any_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    file = rows(tmp_path / "rows.csv", 60_000)
    words = ["--dir", str(tmp_path / "store"), "--stream", "s", "--batch", "20", str(file), *TIMED]
    command = [sys.executable, "-m", "diskstream", "import", *words]
    for wanted in (1, 4_000, 9_000):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            wait_for(tmp_path / "store", wanted, lambda process=process: process.poll() is None)  # type: ignore[misc]  # bound now
            process.send_signal(signal.SIGKILL)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert [value for _, value in entries(tmp_path / "store")] == [b"v%d" % at for at in range(60_000)]


def wait_for(directory: Path, count: int, goes_on: Callable[[], bool]) -> None:
    while goes_on():
        if (directory / "streams" / "s").is_dir():
            with diskstream.open(directory, read_only=True) as store:
                if len(store.stream("s")) >= count:
                    return
        os.sched_yield()


def test_from_standard_input_nothing_is_remembered(tmp_path: Path) -> None:
    assert load.LoadOptions().key == ""
    for _ in range(2):
        arguments = ["import", "-", "--format", "lines", "--dir", str(tmp_path / "store"), "--stream", "s"]
        assert CliRunner().invoke(main, arguments, input=b"a\nb\n").exit_code == 0
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        assert len(store.stream("s")) == 4
