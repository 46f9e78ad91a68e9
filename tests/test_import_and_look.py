"""The verbs that look into a store and change it, on what `diskstream import` and `diskstream add` put there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store that has the stream `race` with three entries."""

    def run_verb(*words: str, code: int = 0, given: bytes = b"") -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
        assert result.exit_code == code, result.output
        return result

    rows = b't,rider,note\n1,Castilla,"left, right"\n2,Norem,\n3,Prickett,caf\xe9\n'
    run_verb(
        "import", "-", "--format", "csv", "--stream", "race", "-t", "t", "--timestamp-format", "epoch-ms", given=rows
    )
    return run_verb


def test_ls_lists_streams_and_takes_a_pattern(run: Run) -> None:
    run("add", "road", "a=1", "--id", "9-9")
    assert [line.split()[:4] for line in run("ls").stdout.splitlines()[1:]] == [
        ["race", "3", "1-0", "3-0"],
        ["road", "1", "9-9", "9-9"],
    ]
    assert [json.loads(line)["stream"] for line in run("ls", "ra*", "--json").stdout.splitlines()] == ["race"]


def test_range_prints_an_entry_a_line(run: Run) -> None:
    assert run("range", "race").stdout.splitlines() == [
        '1-0  t=1  rider=Castilla  note="left, right"',
        '2-0  t=2  rider=Norem  note=""',
        '3-0  t=3  rider=Prickett  note="caf\\xe9"',
    ]


def test_range_takes_bounds_a_count_and_a_direction(run: Run) -> None:
    def ids(*words: str) -> list[str]:
        return [json.loads(line)["id"] for line in run("range", "race", *words, "--json").stdout.splitlines()]

    assert ids("2", "+") == ["2-0", "3-0"]
    assert ids("1970-01-01T00:00:00.002Z", "1970-01-01T00:00:00.003+00:00") == ["2-0", "3-0"]
    assert ids("(1-0", "(3-0") == ["2-0"]
    assert ids("-n", "2") == ["1-0", "2-0"]
    assert ids("-n", "2", "--reverse") == ["3-0", "2-0"]
    assert ids("1", "2", "--reverse") == ["2-0", "1-0"]


def test_what_range_prints_as_json_has_every_byte(run: Run) -> None:
    fields = json.loads(run("range", "race", "3", "--json").stdout)["fields"]
    assert fields["note"].encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_repeated_names_are_printed_in_full(run: Run) -> None:
    run("add", "s", "a=1", "b=x=y", "a=2")
    entry = json.loads(run("range", "s", "--json").stdout)
    assert entry["fields"] == {"a": "2", "b": "x=y"}
    assert entry["pairs"] == [["a", "1"], ["b", "x=y"], ["a", "2"]]


def test_add_prints_the_id_and_makes_the_stream(run: Run) -> None:
    assert run("add", "new", "a=1", "--id", "5-*").stdout == "5-0\n"
    assert json.loads(run("add", "new", "a=1", "--id", "5-*", "--json").stdout) == {"id": "5-1"}


def test_add_takes_any_bytes(run: Run) -> None:
    name, value = os.fsdecode(b"na\xffme"), os.fsdecode(b"x\xfe")
    run("add", name, f"f={value}")
    entry = json.loads(run("range", name, "--json").stdout)
    assert os.fsencode(entry["fields"]["f"]) == b"x\xfe"


def test_len_trim_and_del(run: Run) -> None:
    assert run("len", "race").stdout == "3\n"
    assert run("trim", "race", "--maxlen", "2", "--force").stdout == "1\n"
    assert run("del", "race", "3-0", "7-7", "--force").stdout == "1\n"
    assert json.loads(run("len", "race", "--json").stdout) == {"stream": "race", "length": 1}
    trimmed = {"stream": "race", "trimmed": 1, "dry_run": False}
    assert json.loads(run("trim", "race", "--minid", "9", "--json", "--force").stdout) == trimmed


def test_info_tells_what_is_known(run: Run) -> None:
    facts = json.loads(run("info", "race", "--json").stdout)
    assert (facts["stream"], facts["length"], facts["last_generated_id"]) == ("race", 3, "3-0")
    assert facts["first_entry"]["fields"]["rider"] == "Castilla"
    shown = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in run("info", "race").stdout.splitlines())
    assert shown["last generated id"] == "3-0"
    assert shown["first entry"] == '1-0  t=1  rider=Castilla  note="left, right"'


def test_info_does_not_say_that_what_is_on_disk_is_not(run: Run) -> None:
    """It only looks, and cannot know it: of every entry, those flushed one by one too, it said `durable  no`."""
    run("add", "road", "a=1", "--fsync", "always")
    assert json.loads(run("info", "road", "--json").stdout)["durable"] is None
    assert re.search(r"^durable +unknown$", run("info", "road").stdout, flags=re.MULTILINE)


def test_sealing_compacting_and_verifying_keep_what_is_there(run: Run) -> None:
    before = run("range", "race").stdout
    run("seal")
    run("add", "race", "a=1", "--id", "10-0")
    run("del", "race", "10-0", "--force")
    run("seal", "race")
    run("compact")
    run("compact", "race", "--json")
    assert run("range", "race").stdout == before
    assert run("verify").exit_code == 0
    assert json.loads(run("verify", "--json").stdout)


def test_a_damaged_stream_is_named_and_the_others_are_listed(run: Run, tmp_path: Path) -> None:
    run("add", "road", "a=1")
    (log,) = (tmp_path / "store" / "streams" / "race").glob("*.log")
    content = bytearray(log.read_bytes())
    content[20] ^= 0xFF
    log.write_bytes(content)
    listed = run("ls", code=1)
    assert f"error: race: {log}" in listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["road"]
    assert f"race: {log}" in run("verify", code=1).stdout
    assert json.loads(run("verify", "--json", code=1).stdout)["ok"] is False
    assert "error:" in run("range", "race", code=1).stderr


@pytest.mark.parametrize("verb", [["range"], ["len"], ["info"], ["trim", "--maxlen", "1"], ["del", "1-0"], ["seal"]])
def test_a_stream_that_is_not_there_is_an_error_with_a_hint(run: Run, verb: list[str]) -> None:
    arguments = [verb[0], "rage", *([verb[1]] if verb[0] == "del" else verb[1:])]
    result = run(*arguments, code=1)
    assert "error: there is no stream rage" in result.stderr
    assert "hint:" in result.stderr
    assert result.stdout == ""


def test_a_store_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for verb in (["ls"], ["verify"], ["seal"], ["len", "s"]):
        result = CliRunner().invoke(main, [*verb, "--dir", str(missing)])
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("error: ")
    assert not missing.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["range"],
        ["add", "s"],
        ["add", "s", "novalue"],
        ["trim", "race"],
        ["trim", "race", "--maxlen", "x"],
        ["nonsense"],
    ],
)
def test_wrong_usage_has_status_2(run: Run, words: list[str]) -> None:
    assert run(*words, code=2).stderr


def test_a_malformed_id_is_an_error(run: Run) -> None:
    assert "'one-two' is no ID, such as 1714521600000-0" in run("add", "race", "a=1", "--id", "one-two", code=2).stderr
    assert "is neither an ID nor a time" in run("range", "race", "one", code=2).stderr


def test_an_add_behind_the_greatest_id_has_a_way_out(run: Run) -> None:
    run("add", "full", "a=1", "--id", "18446744073709551615-18446744073709551615")
    assert "hint: no greater ID exists" in run("add", "full", "a=1", code=1).stderr


def test_every_verb_has_help(run: Run) -> None:
    listed = run("--help").stdout
    for verb in ("add", "compact", "del", "demo", "import", "info", "len", "ls", "range", "seal", "trim", "verify"):
        assert f"\n  {verb} " in listed
        assert "Usage:" in run(verb, "--help").stdout


def test_the_command_is_a_module_too(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"n": 1})
    words = [sys.executable, "-m", "diskstream", "ls", "--dir", str(tmp_path / "store"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["stream"] == "x"
    wrong = subprocess.run([*words[:3], "nonsense"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "python -m diskstream" in wrong.stderr) == (2, True)
