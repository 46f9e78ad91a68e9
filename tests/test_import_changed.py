"""Files that change between an import that is interrupted and the one that goes on: no row comes twice."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.ingest.resuming import MAX_IMPORTS, Resumption
from tests.test_import_resumed import TIMED, entries, interrupted, rows, run


def attempt(directory: Path, *words: object) -> Result:
    return CliRunner().invoke(main, ["import", "--dir", str(directory), "--stream", "s", *map(str, words)])


def values(directory: Path) -> list[bytes]:
    return [value for _, value in entries(directory)]


def numbered(count: int) -> list[bytes]:
    return [b"v%d" % at for at in range(count)]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_bad_row_that_is_mended_is_gone_on_from(tmp_path: Path) -> None:
    """It was another file, by its size and its time: the hint was followed, and the rows before were there twice."""
    file = rows(tmp_path / "rows.csv", 600)
    change(file, ",v550\n", ",v550,extra\n")
    stopped = attempt(tmp_path / "store", file)
    assert stopped.exit_code == 1
    assert "500 rows before it were imported" in stopped.stderr
    assert "mend it and run the same again" in stopped.stderr
    change(file, ",v550,extra\n", ",v550\n")
    assert attempt(tmp_path / "store", file).exit_code == 0
    assert values(tmp_path / "store") == numbered(600)


@pytest.mark.parametrize("words", [(), TIMED])
def test_a_file_that_has_grown_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    file = rows(tmp_path / "rows.csv", 220)
    interrupted(monkeypatch, tmp_path / "store", 3, file, *words)
    rows(file, 430)
    report = run(tmp_path / "store", file, *words, "--check")
    assert (report["resumed"], report["rows"]) == (150, 280)
    assert values(tmp_path / "store") == numbered(430)


def test_it_has_grown_where_the_last_batch_was_a_short_one(tmp_path: Path) -> None:
    """The files of an import are over together: one that was there to its end is gone on with while another is bad."""
    first, second = rows(tmp_path / "s.csv", 70), tmp_path / "other.csv"
    second.write_text("a\n1\n2,3\n")
    words = ["import", str(first), str(second), "--dir", str(tmp_path / "store"), "--stream", "{stem}", "--batch", "50"]
    assert CliRunner().invoke(main, words).exit_code == 1
    rows(first, 130)
    second.write_text("a\n1\n2\n")
    assert CliRunner().invoke(main, words).exit_code == 0
    assert values(tmp_path / "store") == numbered(130)


def test_how_many_rows_are_added_at_once_may_change_and_so_may_the_time_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rows(tmp_path / "rows.csv", 200)
    interrupted(monkeypatch, tmp_path / "store", 3, file)
    os.utime(file, (1, 1))
    assert run(tmp_path / "store", file, "--batch", "64")["resumed"] == 150
    assert values(tmp_path / "store") == numbered(200)


@pytest.mark.parametrize(("old", "new"), [(",v3\n", ",V3\n"), (",v149\n", ",v1\n"), (",v7\n", ",v7\n1,v\n")])
def test_where_a_row_that_is_there_has_changed_it_says_so_and_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    file = rows(tmp_path / "rows.csv", 200)
    interrupted(monkeypatch, tmp_path / "store", 3, file)
    change(file, old, new)
    refused = attempt(tmp_path / "store", file)
    assert refused.exit_code == 1
    assert "the first 150 rows are not those that an import which was interrupted has added to 's'" in refused.stderr
    assert "--again imports all of them, beside what is there" in refused.stderr
    assert values(tmp_path / "store") == numbered(150)
    assert run(tmp_path / "store", file, "--again")["resumed"] == 0
    assert len(values(tmp_path / "store")) == 150 + len(file.read_text().splitlines()) - 1


def test_a_file_that_ends_before_what_is_there_is_not_taken_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rows(tmp_path / "rows.csv", 200)
    interrupted(monkeypatch, tmp_path / "store", 3, file)
    for count in (0, 100, 149):
        rows(file, count)
        assert "the first 150 rows are not those" in attempt(tmp_path / "store", file).stderr
    rows(file, 150)
    assert run(tmp_path / "store", file)["resumed"] == 150


def test_an_id_of_another_row_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ids.csv"
    file.write_text("id,value\n" + "".join(f"{at}-0,v\n" for at in range(1, 400, 2)))
    interrupted(monkeypatch, tmp_path / "store", 2, file, "--id", "id")
    change(file, "\n41-0,v\n", "\n42-0,v\n")
    assert "the first 100 rows are not those" in attempt(tmp_path / "store", file, "--id", "id").stderr


def test_a_table_that_has_changed_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")

    def write(first: str) -> None:
        table = pa.table({"value": [first, *(f"v{at}" for at in range(1, 30_000))]})
        with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)

    write("v0")
    interrupted(monkeypatch, tmp_path / "store", 12, tmp_path / "t.arrow", call="add_arrow")
    write("another")
    refused = attempt(tmp_path / "store", tmp_path / "t.arrow")
    assert "the first 12,000 rows are not those" in refused.stderr, refused.output
    assert run(tmp_path / "store", tmp_path / "t.arrow", "--again")["resumed"] == 0


def test_more_imports_of_the_same_than_are_counted_are_imports_that_are_not_gone_on_with(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        stream = store.stream("s")
        last = Resumption(stream, "key", version=MAX_IMPORTS - 1)
        assert last.next(1, 7) is not None
        last.finish()
        assert Resumption(stream, "key").next(1, 7) is None
