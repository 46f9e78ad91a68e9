"""What an installation promises: types for callers, the systems it is for, a command that is quiet from the start."""

import os
import signal
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
