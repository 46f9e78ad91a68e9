"""What an installation promises: types for callers, the systems it is for, a command that is quiet from the start."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
REASONS = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
# A Ctrl-C that comes while the named module is looked for. Children of a shell's background inherit SIGINT as ignored.
INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})
class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
sys.argv = ["diskstream", "--version"]
{start}
"""


def loading(module: str, handler: str) -> subprocess.CompletedProcess[str]:
    where, _, name = PROJECT["scripts"]["diskstream"].partition(":")
    return started(f"from {where} import {name} as main\nmain()", module, handler)


def started(start: str, module: str, handler: str) -> subprocess.CompletedProcess[str]:
    program = INTERRUPTED.format(module=module, handler=handler, start=start)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["diskstream", "diskstream.store", "click", "rich.console"])
def test_ctrl_c_while_modules_load_ends_the_command_without_a_word(module: str) -> None:
    done = loading(module, "default_int_handler")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("module", ["click", "diskstream.cli.stopping", "rich.console"])
def test_so_does_the_module_once_the_package_is_loaded(module: str) -> None:
    """What was printed was a traceback."""
    done = started("import runpy\nrunpy.run_module('diskstream', run_name='__main__')", module, "default_int_handler")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("module", ["diskstream.store", "diskstream.__main__", "click", "rich.console"])
@pytest.mark.parametrize("words", [("-m", "diskstream"), ("-mdiskstream",)])
def test_so_does_python_m_while_the_package_loads(tmp_path: Path, module: str, words: tuple[str, ...]) -> None:
    """The package is loaded before its `__main__` is: what was printed in its first 0.2 s was a traceback."""
    hook = INTERRUPTED.format(module=module, handler="default_int_handler", start="")
    (tmp_path / "sitecustomize.py").write_text(hook.replace('sys.argv = ["diskstream", "--version"]', ""))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, *words, "--version"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_program_that_loads_the_package_keeps_its_handler(tmp_path: Path) -> None:
    """One that `python -m` runs too, whatever its words are."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import diskstream")
    (tmp_path / "mine" / "__main__.py").write_text("import signal; print(signal.getsignal(signal.SIGINT).__name__)")
    (tmp_path / "sitecustomize.py").write_text("import signal; signal.signal(2, signal.default_int_handler)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, "-m", "mine", "-m", "diskstream"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout, done.stderr) == ("default_int_handler\n", "")


def test_a_sigint_that_is_ignored_stays_so() -> None:
    done = loading("click", "SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("diskstream, version ")


def test_type_checkers_of_callers_look_at_our_types() -> None:
    assert (files("diskstream") / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_only_linux_is_claimed() -> None:
    claimed = [each for each in PROJECT["classifiers"] if each.startswith("Operating System")]
    assert claimed == ["Operating System :: POSIX :: Linux"]


def test_an_image_is_made_of_the_sources_alone() -> None:
    """All of a checkout was sent to who builds it: environment, objects and history, 400 MB after a build."""
    passed_over = (ROOT / "docs" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    built = (ROOT / ".gitignore").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()[1:]
    wanted = {("" if line.startswith("/") else "**/") + line.strip("/") for line in built}
    assert {".git", *wanted} - set(passed_over) == set()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_pages_say_which_rust_is_wanted(page: str) -> None:
    """It was named without a version: that of many a system is older, and cargo was the first to say so."""
    wanted = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    assert f"Rust {wanted['rust-version']} or later" in (ROOT / page).read_text(encoding="utf-8")


def packages(wanted: Iterable[str | dict[str, str]]) -> set[str]:
    """The names alone, without those of ours and of groups that are included."""
    named = {match[0] for each in wanted if isinstance(each, str) and (match := re.match(r"[\w-]+", each))}
    return named - {"diskstream"}


def crates() -> set[str]:
    files = [ROOT / "native" / crate / "Cargo.toml" for crate in ("core", "sys", "python", "fuzz/libfuzzer")]
    found = {name for file in files for name in tomllib.loads(file.read_text(encoding="utf-8"))["dependencies"]}
    return {name for name in found if not name.startswith("diskstream-")}


@pytest.mark.parametrize(
    ("heading", "wanted"),
    [
        ("Installed with the package", packages(PROJECT["dependencies"])),
        ("In the native core", crates() - {"libfuzzer-sys"}),
        ("Extras, for users who want them", packages(chain(*PROJECT["optional-dependencies"].values()))),
        ("", packages(chain(*SETTINGS["dependency-groups"].values())) | crates()),
    ],
)
def test_each_dependency_has_its_reason(heading: str, wanted: set[str]) -> None:
    """Of what `'.[spark]'` installs, matplotlib was said to be for developers only."""
    part = REASONS.partition(f"## {heading}\n")[2].partition("\n## ")[0] if heading else REASONS
    rows = re.findall(r"^\| (\[.*?) \| ", part, flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"\[([\w-]+)\]", row)}
    explained |= set(re.findall(r"\[(pytest-\w+)\]", part))
    assert wanted
    assert wanted - explained == set()
