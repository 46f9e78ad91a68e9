"""An import is over when nothing of it can fail any more: until then the same, run again, makes nothing twice."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.errors import StorageError
from diskstream.ingest import Loader


def imported(directory: Path, *words: object, stream: str = "{stem}", code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["import", "-d", str(directory), "-s", stream, *map(str, words)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def lengths(directory: Path) -> dict[str, int]:
    with diskstream.open(directory, read_only=True) as store:
        return {stream.name.decode(): len(stream) for stream in store}


def csv(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["n,v", *rows]) + "\n")
    return path


def test_streams_that_were_finished_are_passed_over_when_another_one_was_not(tmp_path: Path) -> None:
    """They were there twice after the run that the hint had asked for."""
    one = csv(tmp_path / "one.csv", *(f"{n},a" for n in range(1200)))
    two = csv(tmp_path / "two.csv", *(f"{n},b" for n in range(600)), "bad", "601,b")
    imported(tmp_path / "s", one, two, code=1)
    imported(tmp_path / "s", one, two, "--on-error", "skip")
    assert lengths(tmp_path / "s") == {"one": 1200, "two": 601}
    imported(tmp_path / "s", one, two, "--on-error", "skip")  # it is over now: the same is imported once more
    assert lengths(tmp_path / "s") == {"one": 2400, "two": 1202}


def test_so_are_they_where_it_died_while_it_said_that_all_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [csv(tmp_path / f"{name}.csv", *(f"{n},a" for n in range(20))) for name in ("one", "two", "three")]
    real, left = Loader.finish, [1]

    def finish(self: Loader) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(self)

    for twice in (1, 2):
        left[0] = 1
        with monkeypatch.context() as patched:
            patched.setattr(Loader, "finish", finish)
            imported(tmp_path / "s", *files, code=1)
        imported(tmp_path / "s", *files)
        assert lengths(tmp_path / "s") == dict.fromkeys(["one", "two", "three"], 20 * twice)


def test_what_could_not_be_read_back_is_not_imported_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = csv(tmp_path / "one.csv", *(f"{n},a" for n in range(1200)))

    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Loader, "_compare", stopped)
        imported(tmp_path / "s", file, "--check", code=1)
    assert "found the same" in imported(tmp_path / "s", file, "--check").output
    assert lengths(tmp_path / "s") == {"one": 1200}
    with diskstream.open(tmp_path / "s") as store:
        store.stream("one").delete(next(iter(store.stream("one"))).id)
    with monkeypatch.context() as patched:
        patched.setattr(Loader, "finish", stopped)
        imported(tmp_path / "s", file, "--check", code=1)
    with diskstream.open(tmp_path / "s") as store:
        store.stream("one").delete(next(store.stream("one").revrange()).id)
    assert "are not the 1,200 rows" in imported(tmp_path / "s", file, "--check", code=1).output


def test_rejected_rows_that_cannot_be_kept_end_it_before_it_is_over(tmp_path: Path) -> None:
    file = csv(tmp_path / "one.csv", "1,a", "bad", "2,b")
    words = (file, "--on-error", "skip", "--rejects")
    imported(tmp_path / "s", *words, "/dev/full", code=1)
    imported(tmp_path / "s", *words, tmp_path / "rejected")
    assert lengths(tmp_path / "s") == {"one": 2}
    assert "3 columns" not in (tmp_path / "rejected").read_text()
    assert json.loads((tmp_path / "rejected").read_text())["row"] == "bad\n"


def test_what_fails_behind_the_last_row_does_not_ask_for_all_rows_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it is over could not be flushed: it was noted all the same, and the same again made every row twice."""
    file = csv(tmp_path / "one.csv", "1,a", "2,b")
    sync, real = diskstream.Store.sync, Loader.finish

    def ill(store: diskstream.Store) -> None:
        sync(store)
        raise StorageError(str(tmp_path), "flush", 5, "Input/output error")

    def finish(loader: Loader) -> None:
        real(loader)
        monkeypatch.setattr(diskstream.Store, "sync", ill)

    monkeypatch.setattr(Loader, "finish", finish)
    told = imported(tmp_path / "s", file, code=1).stderr
    assert "could not flush" in told
    assert "all rows are imported and on disk: the same, run again, may import them once more" in told
    assert lengths(tmp_path / "s") == {"one": 2}


@pytest.mark.parametrize("given", ["a file", "a pipe"])
def test_who_stops_it_behind_the_last_row_is_not_told_to_run_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """It was said to go on where it stopped, and the same again made every row twice."""
    file = csv(tmp_path / "one.csv", "1,a", "2,b")
    close = diskstream.Store.close

    def stopped(store: diskstream.Store) -> None:
        close(store)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(diskstream.Store, "close", stopped)
        words = [str(file)] if given == "a file" else ["-", "--format", "csv"]
        command = ["import", "-d", str(tmp_path / "s"), "-s", "one", *words]
        told = CliRunner().invoke(main, command, input=file.read_bytes())
    assert told.exit_code == 1
    said = " ".join(told.stderr.split())
    assert "all rows are imported and on disk: the same, run again, may import them once more" in said
    assert "goes on" not in said
    assert "another stream" not in said
    assert lengths(tmp_path / "s") == {"one": 2}


@pytest.mark.parametrize("bad", [1, 2000], ids=["at the end", "on the way"])
def test_it_is_said_where_rejected_rows_cannot_be_kept_and_what_to_do(tmp_path: Path, bad: int) -> None:
    """It said that there was no space left on a device."""
    file = csv(tmp_path / "one.csv", *(f"{n},a" for n in range(600)), *["bad"] * bad, "601,b")
    words = (file, "--on-error", "skip", "--rejects")
    told = imported(tmp_path / "s", *words, "/dev/full", code=1).stderr
    assert "rejected rows cannot be written to /dev/full: No space left on device" in told
    assert "run the same again once that is mended" in told
    imported(tmp_path / "s", *words, tmp_path / "rejected")
    assert lengths(tmp_path / "s") == {"one": 601}
    assert len((tmp_path / "rejected").read_text().splitlines()) == bad


def test_rejected_rows_are_not_written_over_what_is_read(tmp_path: Path) -> None:
    file = csv(tmp_path / "one.csv", "1,a", "bad")
    before = file.read_bytes()
    imported(tmp_path / "s", file, "--on-error", "skip", "--rejects", file, code=2)
    assert file.read_bytes() == before


def test_rejected_rows_are_not_written_over_a_file_of_the_store(tmp_path: Path) -> None:
    """The log of a stream was emptied for them, with status 0."""
    file = csv(tmp_path / "one.csv", "1,a", "bad")
    imported(tmp_path / "s", csv(tmp_path / "two.csv", "1,a"))
    (tmp_path / "alias").symlink_to(tmp_path / "s")
    (log,) = (tmp_path / "s" / "streams" / "two").glob("*.log")
    for directory in (tmp_path / "s", tmp_path / "alias"):
        for rejects in (log, tmp_path / "s" / "new", tmp_path / "alias" / "store.json"):
            told = imported(directory, file, "--on-error", "skip", "--rejects", rejects, code=2)
            assert "within the store" in " ".join(told.output.split())
    assert lengths(tmp_path / "s") == {"two": 1}
    assert not (tmp_path / "s" / "new").exists()


def test_a_file_that_is_named_twice_is_wrong_usage(tmp_path: Path) -> None:
    """Each of its rows was there twice, and nobody had asked for that."""
    file, other = csv(tmp_path / "one.csv", "1,a"), csv(tmp_path / "two.csv", "1,a")
    (tmp_path / "linked.csv").symlink_to(file)
    (tmp_path / "-").write_text("n,v\n1,a\n")
    for again in (file, f"{tmp_path}/./one.csv", tmp_path / "linked.csv"):
        told = imported(tmp_path / "s", file, other, again, stream="all", code=2).output
        assert "named twice" in " ".join(told.split())
    imported(tmp_path / "s", "-", "-", code=2)
    assert not (tmp_path / "s").exists()
    imported(tmp_path / "s", file, tmp_path / "linked.csv", "-")  # into streams of their own
    assert lengths(tmp_path / "s") == {"linked": 1, "one": 1}


def test_another_spelling_of_the_name_is_another_import_where_it_is_in_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are cut into batches by their size, with the name: some were skipped, or came twice."""
    file = csv(tmp_path / "wide.csv", *(f"{n},{'x' * 16_000}" for n in range(600)), "bad")
    monkeypatch.chdir(tmp_path)
    imported(tmp_path / "s", "wide.csv", "--file-field", "file", code=1)
    with diskstream.open(tmp_path / "s") as store:
        before = len(store.stream("wide"))
    imported(tmp_path / "s", file, "--file-field", "file", "--on-error", "skip")
    with diskstream.open(tmp_path / "s") as store:
        found = [entry["n"] for entry in store.stream("wide") if entry["file"] == str(file).encode()]
        assert found == [b"%d" % n for n in range(600)]
        assert len(store.stream("wide")) == before + 600


@pytest.mark.parametrize("header", ['"id"x,name', '"id', "id,name\r1,anna\r2,bob"])
def test_a_header_that_cannot_be_read_is_no_row_to_be_skipped(tmp_path: Path, header: str) -> None:
    """The first row was taken for the header, and all fields had the names of its values."""
    file = tmp_path / "one.csv"
    file.write_bytes(f"{header}\n1,anna\n2,bob\n".encode())
    told = imported(tmp_path / "s", file, "--on-error", "skip", code=1).output
    assert "one.csv:1: " in told
    assert "(the header)" in told
    assert not (tmp_path / "s" / "streams" / "one").exists()


def test_what_was_learnt_of_the_year_in_one_file_says_nothing_of_another(tmp_path: Path) -> None:
    old, new = tmp_path / "a.log", tmp_path / "b.log"
    old.write_text("Dec 31 23:59:59 x\nJan 01 00:00:01 y\n")
    new.write_text("Mar 01 10:00:00 z\n")
    words: tuple[Any, ...] = ("-t", "line", "--timestamp-regex", r"^\w+ \d+ [\d:]+", "--timestamp-format")
    words += ("%b %d %H:%M:%S", "--year", "2023")
    imported(tmp_path / "s", old, new, "--format", "lines", *words)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        (entry,) = store.stream("b")
    assert entry.id.ms == 1_677_664_800_000  # 2023-03-01


def test_names_of_zones_are_not_passed_over(tmp_path: Path) -> None:
    file = csv(tmp_path / "one.csv", "2024-01-01 12:00:00 GMT,a")
    told = imported(tmp_path / "s", file, "-t", "n", "--timestamp-format", "%Y-%m-%d %H:%M:%S %Z", code=2).output
    assert "--timezone" in told


def test_a_name_that_stands_twice_in_an_object_is_two_fields(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text('{"id": "1-1", "fields": {"a": "1", "a": "2"}}\n')
    imported(tmp_path / "s", file, "--format", "entries")
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert next(iter(store.stream("one"))).pairs == [(b"a", b"1"), (b"a", b"2")]


@pytest.mark.parametrize("head", [b"\xfd7zXZ\x00", b"PK\x03\x04"])
def test_more_kinds_of_compressed_files_are_known(tmp_path: Path, head: bytes) -> None:
    file = tmp_path / "one.csv.x"
    file.write_bytes(head + bytes(100))
    assert "is compressed" in imported(tmp_path / "s", file, code=1).output


def test_how_often_a_file_is_looked_at_does_not_grow_with_how_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 files, each for a stream of its own, were looked at nine million times before a row was read."""
    looks: Counter[Path] = Counter()
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        looks[path] += 1
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    most = []
    for number in (2, 12):
        files = [csv(tmp_path / f"{n}-of-{number}.csv", "1,a") for n in range(number)]
        imported(tmp_path / f"s{number}", *files)
        most.append(max(looks[file] for file in files))
    assert most[0] == most[1]
