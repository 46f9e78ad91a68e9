"""redis-cli against the server: what it prints in each of its forms, mass insertion, and its walks over all keys."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.real_clients.servers import DATABASE, Target
from tests.server.client import packed

Cli = Callable[..., str]


@pytest.fixture
def cli(target: Target) -> Cli:
    """Runs redis-cli with these words; gives what it prints, after what it complains of."""
    program = shutil.which("redis-cli")
    if program is None:
        pytest.skip("needs the program redis-cli, which is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    if int(version.split()[1].split(".")[0]) < 7:
        pytest.skip(f"needs redis-cli 7, the first with --json; installed is {version.strip()}")

    def run(*words: str, given: str | bytes = b"", code: int = 0) -> str:
        command = [program, "-h", target.host, "-p", str(target.port), "-n", str(DATABASE), *words]
        data = given.encode() if isinstance(given, str) else given
        done = subprocess.run(command, input=data, capture_output=True, timeout=30, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return (done.stderr + done.stdout).decode()

    return run


@pytest.fixture
def jobs(cli: Cli) -> None:
    """A stream of two entries, of which a group gave the first to ann."""
    cli("XADD", "jobs", "1-1", "n", "1", "kind", "fast")
    cli("XADD", "jobs", "2-1", "n", "2", "kind", "slow")
    cli("XGROUP", "CREATE", "jobs", "g", "0")
    cli("XREADGROUP", "GROUP", "g", "ann", "COUNT", "1", "STREAMS", "jobs", ">")


@pytest.mark.usefixtures("jobs")
def test_replies_are_printed_plain(cli: Cli) -> None:
    assert cli("XADD", "jobs", "3-1", "n", "3") == "3-1\n"
    assert cli("XLEN", "jobs") == "3\n"
    assert cli("XRANGE", "jobs", "-", "+", "COUNT", "1") == "1-1\nn\n1\nkind\nfast\n"
    assert cli("--no-raw", "XREAD", "COUNT", "1", "STREAMS", "jobs", "2") == (
        '1) 1) "jobs"\n   2) 1) 1) "2-1"\n         2) 1) "n"\n            2) "2"\n'
        '            3) "kind"\n            4) "slow"\n'
    )
    assert cli("--no-raw", "XREAD", "STREAMS", "jobs", "$") == "(nil)\n"
    assert cli("--csv", "XRANGE", "jobs", "3", "3") == '"3-1","n","3"\n'
    assert cli("XACK", "jobs", "g", "1-1") == "1\n"
    assert "equal or smaller" in cli("-e", "XADD", "jobs", "1-1", "n", "1", code=1)


@pytest.mark.usefixtures("jobs")
def test_replies_are_printed_in_resp3(cli: Cli) -> None:
    printed = cli("-3", "--no-raw", "XREAD", "COUNT", "1", "STREAMS", "jobs", "2")
    assert " ".join(printed.split()) == '1# "jobs" => 1) 1) "2-1" 2) 1) "n" 2) "2" 3) "kind" 4) "slow"'
    assert '1# "name" => "g"\n' in cli("-3", "--no-raw", "XINFO", "GROUPS", "jobs")
    assert cli("-3", "--no-raw", "XREAD", "STREAMS", "jobs", "$") == "(nil)\n"
    assert "proto" in cli("-3", "HELLO")


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("form", ["--json", "--quoted-json"])
def test_replies_are_printed_as_json(cli: Cli, form: str) -> None:
    def found(*words: str) -> Any:
        return json.loads(cli(form, *words))

    entries = [["1-1", ["n", "1", "kind", "fast"]], ["2-1", ["n", "2", "kind", "slow"]]]
    assert found("XRANGE", "jobs", "-", "+") == entries
    assert found("XREAD", "STREAMS", "jobs", "0") == {"jobs": entries}
    assert found("XREAD", "STREAMS", "jobs", "$") is None
    assert found("XPENDING", "jobs", "g") == [1, "1-1", "1-1", [["ann", "1"]]]
    (group,) = found("XINFO", "GROUPS", "jobs")
    assert {name: group[name] for name in ("name", "consumers", "pending", "last-delivered-id", "lag")} == {
        "name": "g",
        "consumers": 1,
        "pending": 1,
        "last-delivered-id": "1-1",
        "lag": 1,
    }
    full = found("XINFO", "STREAM", "jobs", "FULL")
    assert (full["length"], full["entries"]) == (2, entries)
    assert full["groups"][0]["consumers"][0]["name"] == "ann"


def test_commands_are_read_from_standard_input(cli: Cli) -> None:
    lines = ['XADD jobs 1-1 text "two words\\x00\\xff"', "MULTI", "XADD jobs 2-1 n 2", "XLEN jobs", "EXEC", "XLEN jobs"]
    assert cli(given="\n".join(lines) + "\n") == "1-1\nOK\nQUEUED\nQUEUED\n2-1\n2\n2\n"
    assert cli("--no-raw", "XRANGE", "jobs", "1", "1").endswith('2) "two words\\x00\\xff"\n')
    assert cli("-x", "XADD", "jobs", "3-1", "body", given="a\r\nb") == "3-1\n"
    assert cli("--no-raw", "XRANGE", "jobs", "3", "3").endswith('2) "a\\r\\nb"\n')


def test_mass_insertion(cli: Cli) -> None:
    commands = [packed("XADD", f"jobs:{n % 3}", f"{n}-1", "n", n) for n in range(1, 30_001)]
    output = cli("--pipe", given=b"".join(commands))
    assert output.endswith("errors: 0, replies: 30000\n")
    assert [cli("XLEN", f"jobs:{n}") for n in range(3)] == ["10000\n"] * 3


def test_mass_insertion_counts_what_was_refused(cli: Cli) -> None:
    commands = [packed("XADD", "jobs", f"{n}-1", "n", n) for n in (5, 4, 6, 6, 7)]
    plain = b"XLEN jobs\r\nNOSUCH\r\n"
    assert cli("--pipe", given=b"".join(commands) + plain, code=1).endswith("errors: 3, replies: 7\n")
    assert cli("XLEN", "jobs") == "3\n"


def test_keys_are_walked(cli: Cli) -> None:
    names = ["other", *(f"jobs:{n}" for n in range(100))]
    cli("--pipe", given=b"".join(packed("XADD", name, "1-1", "n", 1) for name in names))
    assert sorted(set(cli("--scan").split())) == sorted(names)
    assert sorted(cli("--scan", "--pattern", "jobs:1?").split()) == [f"jobs:{n}" for n in range(10, 20)]
    assert "101 streams with 101 entries" in cli("--bigkeys")
    assert "Sampled 101 keys in the keyspace!" in cli("--memkeys")
