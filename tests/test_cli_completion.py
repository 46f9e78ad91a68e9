"""Completion: the scripts for shells, and the names of streams and groups that they offer."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.copying import temporary_name
from tests.repair.test_cases import flip

PROGRAM = "from diskstream.cli import main; main(prog_name='diskstream')"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "store") as store:
        for name in (b"orders:eu", b"orders:us", b"other", b"bin\xff"):
            store.stream(name).add({"n": 1})
        store.stream("other").create_group("workers", "0").consumer("ann").read()
    return tmp_path / "store"


def offered(words: list[str], directory: Path | str | None, incomplete: str = "") -> list[str]:
    """What is offered behind these words."""
    line = " ".join(["diskstream", *words, incomplete])
    environment = {
        **os.environ,
        "_DISKSTREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) + 1),
    }
    environment.pop("DISKSTREAM_DIR", None)
    if directory is not None:
        environment["DISKSTREAM_DIR"] = str(directory)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_names_of_streams_that_can_be_typed(directory: Path) -> None:
    assert offered(["range"], directory) == ["orders:eu", "orders:us", "other"]
    assert offered(["tail", "other"], directory, "or") == ["orders:eu", "orders:us"]
    assert offered(["info", "--dir", str(directory)], None) == ["orders:eu", "orders:us", "other"]


def test_names_of_groups_and_consumers_of_what_was_named_before(directory: Path) -> None:
    assert offered(["group", "info", "other"], directory) == ["workers"]
    assert offered(["consumer", "rm", "other", "workers"], directory) == ["ann"]
    assert offered(["group", "info", "nothing"], directory) == []
    assert offered(["consumer", "rm", "other", "nobody"], directory) == []


def test_of_a_damaged_stream_nothing_is_offered_and_nothing_is_said(directory: Path) -> None:
    """Fifty lines of a traceback stood in the prompt, once for each time that the key was hit."""
    flip(directory / "streams" / "other" / "00000001.log", 10)
    assert offered(["group", "info", "other"], directory) == []
    assert offered(["consumer", "rm", "other", "workers"], directory) == []
    assert offered(["range"], directory, "ot") == ["other"]


def test_a_stream_that_is_being_made_is_not_offered(directory: Path) -> None:
    with diskstream.open(directory) as store:
        store.stream(temporary_name()).add({"n": 1})
    assert offered(["range"], directory) == ["orders:eu", "orders:us", "other"]


def test_verbs_and_options() -> None:
    assert {"range", "rename", "rm"} <= set(offered([], None, "r"))
    assert "--columns" in offered(["export"], None, "--co")


@pytest.mark.parametrize("wrong", ["missing", "file", ""])
def test_without_a_store_nothing_is_offered_and_nothing_is_said(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert offered(["range"], tmp_path / wrong if wrong else None) == []
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_the_command(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell]).stdout
    assert "_DISKSTREAM_COMPLETE" in script
    assert f"{shell}_complete" in script
    program = shutil.which(shell)
    if program is not None:
        assert subprocess.run([program, "-n"], input=script, text=True, check=False).returncode == 0


def test_bash_itself_completes_with_it(directory: Path, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    program = tmp_path / "diskstream"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
    eval "$(diskstream completion bash)"
    COMP_LINE='diskstream range ord' COMP_POINT=20
    _diskstream_completion diskstream
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DISKSTREAM_DIR": str(directory)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["orders:eu", "orders:us"]


def test_fish_itself_says_what_an_option_is_for(directory: Path, tmp_path: Path) -> None:
    """It cut what it was told at the first comma: `Print JSON`."""
    if shutil.which("fish") is None:
        pytest.skip("needs fish")
    program = tmp_path / "diskstream"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = [f"complete -C 'diskstream range {word}'" for word in ("--js", "ord")]
    script = "; ".join(["diskstream completion fish | source", *asked])
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DISKSTREAM_DIR": str(directory)}
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["--json\tPrint JSON, one object a line.", "orders:eu", "orders:us"]


def typed(line: str, directory: Path) -> list[str]:
    """What bash is given to put into a line where the cursor stands at its end."""
    words = re.split(r" |(?<=:)|(?=:)", line)
    environment = {
        **os.environ,
        "_DISKSTREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_DISKSTREAM_LINE": line,
        "_DISKSTREAM_BREAKS": " \t\n\"'><=;|&(:",
        "DISKSTREAM_DIR": str(directory),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line.startswith("plain,")]


def test_a_name_with_a_colon_is_one_word_though_readline_breaks_it(directory: Path) -> None:
    """Behind the colon nothing was offered, nor for any word behind such a name."""
    assert typed("diskstream range orders:", directory) == ["eu", "us"]
    assert typed("diskstream range orders:e", directory) == ["eu"]
    assert typed("diskstream range 'orders:e", directory) == ["orders:eu"]
    with diskstream.open(directory) as store:
        store.stream("orders:eu").create_group("mail:ers")
    assert typed("diskstream group info orders:eu ", directory) == ["mail:ers"]
    assert typed("diskstream group info orders:eu mail:", directory) == ["ers"]
    assert typed("diskstream add s --fsync=al", directory) == ["always"]


def test_what_is_put_into_the_line_is_one_word_and_is_not_run(tmp_path: Path) -> None:
    """Names went in as they are: those with a blank were two words, and $(...) was run with the line."""
    names = ["a b", "it's", "$(reboot)", "na\u00efve;x", "*"]
    with diskstream.open(tmp_path / "store") as store:
        for name in names:
            store.stream(name).add({"n": 1})
    written = typed("diskstream range ", tmp_path / "store")
    assert sorted(shlex.split(" ".join(written))) == sorted(names)
    assert r"\$\(reboot\)" in written
    assert r"\*" in written
    assert typed(r"diskstream range a\ ", tmp_path / "store") == [r"a\ b"]
    assert typed("diskstream range 'a ", tmp_path / "store") == ["a b"]
    assert typed('diskstream range "$', tmp_path / "store") == [r"\$(reboot)"]
    assert typed("diskstream range 'it", tmp_path / "store") == []  # within these quotes it cannot be said
    assert typed('diskstream range "it', tmp_path / "store") == ["it's"]


def test_another_shell_is_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2
