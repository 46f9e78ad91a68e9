"""`diskstream import`: what stands in a file stands in the stream, to the byte."""

import csv
import io
import json
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

Import = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def run(directory: Path) -> Import:
    """Runs `diskstream import` with these arguments, into the stream `s` unless they name one."""

    def run_import(*arguments: str | Path, code: int = 0, given: bytes = b"") -> Result:
        words = [str(argument) for argument in arguments]
        stream = [] if "--stream" in words else ["--stream", "s"]
        result = CliRunner().invoke(main, ["import", "--dir", str(directory), *stream, *words], input=given)
        assert result.exit_code == code, result.output
        return result

    return run_import


def entries(directory: Path, stream: str | bytes = "s") -> list[tuple[str, list[tuple[bytes, bytes]]]]:
    with diskstream.open(directory, read_only=True, create=False) as store:
        return [(str(entry.id), list(entry.pairs)) for entry in store.stream(stream).range()]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# --- what goes in comes out -------------------------------------------------------------------------------------------


def test_csv_with_its_timestamps_as_ids(tmp_path: Path, directory: Path, run: Import) -> None:
    file = written(tmp_path / "taxi.csv", b'timestamp,note\n2014-07-01 00:00:00,"a, ""b"""\n2014-07-01 00:30:00,\xff\n')
    result = run(file, "--timestamp", "timestamp", "--check")
    assert entries(directory) == [
        ("1404172800000-0", [(b"timestamp", b"2014-07-01 00:00:00"), (b"note", b'a, "b"')]),
        ("1404174600000-0", [(b"timestamp", b"2014-07-01 00:30:00"), (b"note", b"\xff")]),
    ]
    assert "2 rows" in result.stdout
    assert "read back and found the same" in result.stdout
    assert result.stderr == ""


def test_json_lines(tmp_path: Path, directory: Path, run: Import) -> None:
    run(written(tmp_path / "a.jsonl", b'{"ts": 1404172800, "v": 1.10}\n'), "--timestamp", "ts")
    assert entries(directory) == [("1404172800000-0", [(b"ts", b"1404172800"), (b"v", b"1.10")])]


def test_log_lines_with_the_timestamp_found_in_them(tmp_path: Path, directory: Path, run: Import) -> None:
    file = written(tmp_path / "a.log", b"[Sun Dec 04 04:47:44 2005] caf\xe9\r\n[Sun Dec 04 04:47:45 2005] end")
    run(file, "--timestamp-regex", r"^\[(.*?)\]", "--timestamp-format", "%a %b %d %H:%M:%S %Y")
    assert entries(directory) == [
        ("1133671664000-0", [(b"line", b"[Sun Dec 04 04:47:44 2005] caf\xe9\r")]),
        ("1133671665000-0", [(b"line", b"[Sun Dec 04 04:47:45 2005] end")]),
    ]


def test_without_a_timestamp_rows_keep_their_order(tmp_path: Path, directory: Path, run: Import) -> None:
    lines = [b"line %d" % number for number in range(1234)]
    run(written(tmp_path / "a.txt", b"\n".join(lines)), "--batch", "100")
    assert [pairs for _, pairs in entries(directory)] == [[(b"line", line)] for line in lines]


def test_standard_input_is_json_where_it_looks_like_it(directory: Path, run: Import) -> None:
    run("-", given=b'{"a": 1}\n')
    run("-", given=b"plain\n")
    assert [pairs for _, pairs in entries(directory)] == [[(b"a", b"1")], [(b"line", b"plain")]]


def test_each_file_into_a_stream_of_its_own(tmp_path: Path, directory: Path, run: Import) -> None:
    files = [written(tmp_path / f"{name}.csv", b"v\n%s\n" % name.encode()) for name in ("a", "b")]
    result = run(*files, "--stream", "x:{stem}", "--json")
    assert [json.loads(line)["stream"] for line in result.stdout.splitlines()] == ["x:a", "x:b"]
    assert [pairs for _, pairs in entries(directory, "x:b")] == [[(b"v", b"b")]]


def test_several_files_into_one_stream_are_put_in_order_together(tmp_path: Path, directory: Path, run: Import) -> None:
    first = written(tmp_path / "1.csv", b"t,v\n1000000000,a\n1000000002,c\n")
    second = written(tmp_path / "2.csv", b"t,v\n1000000001,b\n")
    run(first, second, "--timestamp", "t", "--file-field", "file")
    assert [dict(pairs)[b"v"] for _, pairs in entries(directory)] == [b"a", b"b", b"c"]
    assert dict(entries(directory)[1][1])[b"file"] == str(second).encode()


def test_a_second_import_goes_on_behind_the_first(tmp_path: Path, directory: Path, run: Import) -> None:
    run(written(tmp_path / "1.csv", b"t\n1000000000\n"), "--timestamp", "t")
    run(written(tmp_path / "2.csv", b"t\n1000000000\n1000000001\n"), "--timestamp", "t")
    assert [entry_id for entry_id, _ in entries(directory)] == ["1000000000000-0", "1000000000000-1", "1000000001000-0"]


def test_text_of_a_named_encoding_is_kept_as_utf8(tmp_path: Path, directory: Path, run: Import) -> None:
    run(written(tmp_path / "a.csv", "näme,v\r\n€,2\r\n".encode("utf-16")), "--encoding", "utf-16")
    assert [pairs for _, pairs in entries(directory)] == [[("näme".encode(), "€".encode()), (b"v", b"2")]]


# --- times that repeat and go backwards -------------------------------------------------------------------------------

DISORDERED = b"t,v\n1000000005,a\n1000000003,b\n1000000005,c\n1000000003,d\n"


def test_by_default_rows_are_sorted_by_time_and_those_of_one_time_keep_their_order(
    tmp_path: Path, directory: Path, run: Import
) -> None:
    result = run(written(tmp_path / "a.csv", DISORDERED), "--timestamp", "t")
    assert [(entry_id, dict(pairs)[b"v"]) for entry_id, pairs in entries(directory)] == [
        ("1000000003000-0", b"b"),
        ("1000000003000-1", b"d"),
        ("1000000005000-0", b"a"),
        ("1000000005000-1", b"c"),
    ]
    assert "2 older than the row before (sorted by time)" in result.stdout


def test_clamped_rows_stay_in_their_place(tmp_path: Path, directory: Path, run: Import) -> None:
    run(written(tmp_path / "a.csv", DISORDERED), "--timestamp", "t", "--disorder", "clamp")
    assert [(entry_id, dict(pairs)[b"v"]) for entry_id, pairs in entries(directory)] == [
        ("1000000005000-0", b"a"),
        ("1000000005000-1", b"b"),
        ("1000000005000-2", b"c"),
        ("1000000005000-3", b"d"),
    ]


def test_each_row_that_was_given_another_time_is_told(tmp_path: Path, run: Import) -> None:
    """Those alone were that are older than the row above them in the file: 1 of the 3 of the first import here; and of
    the second, all of which is older than what is there, none."""
    first = written(tmp_path / "a.csv", b"t\n1000000100\n1000000050\n1000000060\n1000000070\n1000000110\n")
    second = written(tmp_path / "b.csv", b"t\n1000000100\n1000000101\n")
    result = run(first, "--timestamp", "t", "--disorder", "clamp", "--json")
    assert json.loads(result.stdout)["disordered"] == 3
    result = run(second, "--timestamp", "t", "--disorder", "clamp")
    assert "2 older than the row or the entry before (given its time)" in result.stdout


def test_disorder_can_be_refused(tmp_path: Path, directory: Path, run: Import) -> None:
    result = run(written(tmp_path / "a.csv", DISORDERED), "--timestamp", "t", "--disorder", "error", code=1)
    assert "a.csv:3: lies 2.000 s before the row above it" in result.stderr
    assert "nothing was imported" in result.stderr
    assert entries(directory) == []


def test_where_rows_are_in_already_the_hint_says_that_they_would_be_there_twice(
    tmp_path: Path, directory: Path, run: Import
) -> None:
    """Another --disorder is another import: whoever took it as the hint said had the first rows twice."""
    words = ("--timestamp", "t", "--disorder", "error", "--batch", "1")
    result = run(written(tmp_path / "a.csv", DISORDERED), *words, code=1)
    assert "1 row before it was imported, and would be there twice: import all of it into another" in result.stderr
    assert "--disorder clamp" in result.stderr


def test_rows_older_than_the_stream_are_refused_before_anything_is_written(
    tmp_path: Path, directory: Path, run: Import
) -> None:
    run(written(tmp_path / "1.csv", b"t\n1000000009\n"), "--timestamp", "t")
    result = run(written(tmp_path / "2.csv", b"t\n1000000010\n1000000001\n"), "--timestamp", "t", code=1)
    assert "8.000 s older than the newest entry of 's', 1000000009000-0" in result.stderr
    assert "--disorder clamp" in result.stderr
    assert len(entries(directory)) == 1


# --- bad rows ---------------------------------------------------------------------------------------------------------

BAD = b"t,v\n1000000001,a\n1000000002\nnever,c\n1000000004,d\n"


def test_a_bad_row_stops_the_import_and_is_named(tmp_path: Path, directory: Path, run: Import) -> None:
    result = run(written(tmp_path / "a.csv", BAD), code=1)
    assert "a.csv:3: has 1 column where the header has 2" in result.stderr
    assert "hint: nothing was imported; --on-error skip leaves out bad rows" in result.stderr
    assert entries(directory) == []


def test_who_goes_on_behind_a_bad_row_as_the_hint_says_has_each_row_once(
    tmp_path: Path, directory: Path, run: Import
) -> None:
    """The rows before the bad one came twice; and where rows have their IDs, the rest never got in."""
    rows = [b"n", *(b"%d" % number for number in range(1, 26)), b"1,2", *(b"%d" % n for n in range(26, 41)), b""]
    few = ("--batch", "10")
    file = written(tmp_path / "a.csv", b"\n".join(rows))
    stopped = run(file, *few, code=1)
    assert "hint: 20 rows before it were imported; --on-error skip goes on from there" in stopped.stderr
    assert len(entries(directory)) == 20
    run(file, *few, "--on-error", "skip")
    assert [int(dict(pairs)[b"n"]) for _, pairs in entries(directory)] == list(range(1, 41))


def test_rows_with_ids_go_on_behind_a_bad_one_too(tmp_path: Path, directory: Path, run: Import) -> None:
    rows = [b"id,n", *(b"%d-1,x" % number for number in range(1, 13)), b"zz,y", b"20-1,z", b""]
    file = written(tmp_path / "a.csv", b"\n".join(rows))
    run(file, "--batch", "5", "--id", "id", code=1)
    run(file, "--batch", "5", "--id", "id", "--on-error", "skip")
    assert [entry_id for entry_id, _ in entries(directory)] == [*(f"{number}-1" for number in range(1, 13)), "20-1"]


def test_with_timestamps_to_sort_a_bad_row_leaves_the_stream_untouched(
    tmp_path: Path, directory: Path, run: Import
) -> None:
    result = run(written(tmp_path / "a.csv", BAD), "--timestamp", "t", code=1)
    assert "hint: nothing was imported" in result.stderr
    assert entries(directory) == []


def test_bad_rows_can_be_skipped_and_kept_elsewhere(tmp_path: Path, directory: Path, run: Import) -> None:
    rejects = tmp_path / "rejects.jsonl"
    file = written(tmp_path / "a.csv", BAD)
    result = run(file, "--timestamp", "t", "--on-error", "skip", "--rejects", rejects)
    assert [dict(pairs)[b"v"] for _, pairs in entries(directory)] == [b"a", b"d"]
    assert "a.csv:3: has 1 column where the header has 2" in result.stderr
    assert "a.csv:4: has the timestamp 'never', which cannot be read" in result.stderr
    assert "2 bad rows skipped" in result.stderr
    kept = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(each["line"], each["row"]) for each in kept] == [(3, "1000000002\n"), (4, "never,c\n")]


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, run: Import) -> None:
    result = run(written(tmp_path / "a.csv", BAD), "--timestamp", "time", code=1)
    assert "a.csv:2: has no column 'time' (it has 't', 'v')" in result.stderr


def test_a_missing_file_is_found_before_anything_is_written(tmp_path: Path, directory: Path, run: Import) -> None:
    good = written(tmp_path / "a.csv", b"a\n1\n")
    assert "b.csv: there is no such file" in run(good, tmp_path / "b.csv", code=1).stderr
    assert not directory.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--timestamp", "t", "--timestamp-format", "nonsense"], "neither one of auto"),
        (["--timestamp", "t", "--timestamp-format", "%b %d"], "--year"),
        (["--timestamp", "t", "--timezone", "Nowhere/Land"], "not a time zone"),
        (["--timestamp-regex", "("], "unterminated"),
        *((["--encoding", name], "not an encoding") for name in ("klingon", "idna", "punycode", "undefined", "hex")),
        (["--delimiter", "ab"], "one byte"),
        (["--batch", "0"], "--batch"),
    ],
)
def test_wrong_usage_is_told_at_once(
    tmp_path: Path, directory: Path, run: Import, arguments: list[str], message: str
) -> None:
    result = run(written(tmp_path / "a.csv", b"t\n1\n"), *arguments, code=2)
    assert message in result.stderr
    assert not directory.exists()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        *(
            ("a.csv", words, f"{words[0]} is for timestamps")
            for words in (
                ["--timestamp-format", "iso"],
                ["--timezone", "UTC"],
                ["--year", "2020"],
                ["--disorder", "error"],
            )
        ),
        *(
            (name, words, f"{words[0]} is for CSV")
            for name in ("a.txt", "a.jsonl")
            for words in (["--delimiter", ";"], ["--columns", "t,v"])
        ),
        ("a.csv", ["--format", "lines", "--delimiter", ";"], "--delimiter is for CSV"),
        ("a.csv", ["--rejects", "-"], "give --on-error skip as well"),
    ],
)
def test_an_option_that_has_nothing_to_do_is_not_passed_over(
    tmp_path: Path, directory: Path, run: Import, name: str, arguments: list[str], message: str
) -> None:
    """Rows had the time of the import for their IDs, or were one field each, without a word."""
    assert message in run(written(tmp_path / name, b"t;v\n1;2\n"), *arguments, code=2).stderr
    assert not directory.exists()


def test_columns_are_named_where_one_of_the_files_is_csv(tmp_path: Path, run: Import) -> None:
    files = written(tmp_path / "a.csv", b"1,2\n"), written(tmp_path / "b.jsonl", b'{"t": 3}\n')
    assert "2 rows" in run(*files, "--columns", "t,v").stdout


# --- real data --------------------------------------------------------------------------------------------------------


READINGS = 243_849 + 7
"""Lines but for the headers, as `wc -l` counts them, and the last one of the seven files that end without a newline."""


def unpacked(archive: Path, target: Path) -> list[Path]:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(target)
    return sorted(path for path in target.rglob("*") if path.suffix in (".csv", ".log"))


def test_every_reading_of_the_anomaly_benchmark_comes_back(
    shared_dir: Path, tmp_path: Path, directory: Path, run: Import
) -> None:
    files = unpacked(shared_dir / "data" / "nab.zip", tmp_path)
    result = run(*files, "--stream", "{stem}", "--timestamp", "timestamp", "--json")
    reports = {report["stream"]: report for report in map(json.loads, result.stdout.splitlines())}
    assert (len(reports), sum(report["rows"] for report in reports.values())) == (24, READINGS)
    assert reports["machine_temperature_system_failure"]["disordered"] == 1
    assert reports["ec2_request_latency_system_failure"]["repeated"] == 11
    for file in files:
        read = entries(directory, file.stem)
        ids = [tuple(map(int, entry_id.split("-"))) for entry_id, _ in read]
        assert all(one < other for one, other in pairwise(ids))
        rows = list(csv.reader(io.StringIO(file.read_text(encoding="latin-1"), newline="")))[1:]
        by_time = sorted(rows, key=lambda row: row[0])  # these files write times so that their text sorts as they do
        assert [[value.decode("latin-1") for _, value in pairs] for _, pairs in read] == by_time


def test_every_line_of_the_system_logs_comes_back(
    shared_dir: Path, tmp_path: Path, directory: Path, run: Import
) -> None:
    files = unpacked(shared_dir / "data" / "loghub.zip", tmp_path)
    run(*files, "--stream", "{stem}-log", "--format", "lines")
    logs = [file for file in files if file.suffix == ".log"]
    assert len(logs) == 7
    for file in logs:
        both = b"".join(each.read_bytes().removesuffix(b"\n") + b"\n" for each in files if each.stem == file.stem)
        assert b"\n".join(pairs[0][1] for _, pairs in entries(directory, f"{file.stem}-log")) + b"\n" == both


WITHOUT_A_YEAR = ["--year", "2016", "--timestamp-format", "%b %d %H:%M:%S"]
STRUCTURED = {
    "Apache": ["--timestamp", "Time", "--timestamp-format", "%a %b %d %H:%M:%S %Y"],
    "BGL": ["--timestamp", "Time", "--timestamp-format", "%Y-%m-%d-%H.%M.%S.%f"],
    "HDFS": ["--timestamp", "Date", "--timestamp", "Time", "--timestamp-format", "%y%m%d %H%M%S"],
    "OpenSSH": ["--timestamp", "Date", "--timestamp", "Day", "--timestamp", "Time", *WITHOUT_A_YEAR],
    "OpenStack": ["--timestamp", "Date", "--timestamp", "Time"],
    "Spark": ["--timestamp", "Date", "--timestamp", "Time", "--timestamp-format", "%y/%m/%d %H:%M:%S"],
    "Zookeeper": ["--timestamp", "Date", "--timestamp", "Time"],
}


def test_every_cell_of_the_structured_logs_comes_back(
    shared_dir: Path, tmp_path: Path, directory: Path, run: Import
) -> None:
    files = unpacked(shared_dir / "data" / "loghub.zip", tmp_path)
    for file in (file for file in files if file.suffix == ".csv"):
        run(file, "--stream", file.stem, *STRUCTURED[file.stem])
        header, *rows = csv.reader(io.StringIO(file.read_text(encoding="latin-1"), newline=""))
        read = [[value.decode("latin-1") for _, value in pairs] for _, pairs in entries(directory, file.stem)]
        assert [name.decode() for name, _ in entries(directory, file.stem)[0][1]] == header
        assert sorted(read, key=lambda row: int(row[0])) == rows  # LineId, the first column, is the order of the file
