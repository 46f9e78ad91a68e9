"""The tests of the Rust crates, and some of the bindings, under the address sanitizer.

The crates are built as their own tests, with the sanitizer in the program. The bindings are a library of Python's: the
sanitizer's runtime is loaded before it, that of the C compiler, whose calls are the same. A real Python leaks what it
needs to its end, so leaks of the bindings are not looked for.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.libfuzzer import ROOT

__all__ = ["Outcome", "main", "sanitized"]

_NATIVE = ROOT / "native"
_BUILT = _NATIVE / "target" / "sanitized"
_CRATES = ("diskstream-core", "diskstream-sys", "diskstream-fuzz")
# Those that reach far into the bindings, and start no other processes.
_TESTS = ("tests/wire", "tests/test_format.py", "tests/streams/test_columns.py", "tests/streams/test_delete.py")
_PASSED = re.compile(r"\b(\d+) passed")
_KEPT_LINES = 60

Say = Callable[[str], object]


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        passed: how many tests passed, by what they are of.
        failed: the end of what was said where something failed; empty where nothing did.
        left_out: what could not be done here, and why; empty where all was.
    """

    passed: Counter[str] = field(default_factory=Counter)
    failed: str = ""
    left_out: str = ""

    def told(self, what: str, command: Sequence[str], cwd: Path, environment: Mapping[str, str], say: Say) -> bool:
        """Runs something, and counts what passed in it. Returns whether it ended well."""
        lines: list[str] = []
        program = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        with program:
            assert program.stdout is not None
            for line in program.stdout:
                say(line.rstrip())
                lines = [*lines[1 - _KEPT_LINES :], line]
                if found := _PASSED.search(line):
                    self.passed[what] += int(found[1])
        if program.returncode:
            self.failed = f"{' '.join(command)} ended with {program.returncode}:\n{''.join(lines)}"
        return program.returncode == 0


def _cargo(outcome: Outcome, say: Say, *arguments: str) -> bool:
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in told.splitlines() if line.startswith("host:"))
    flags = "-Zsanitizer=address -Cdebug-assertions=on -Coverflow-checks=on"
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(_BUILT)}
    environment["PYO3_PYTHON"] = sys.executable
    # Speed is not the point here: without these it is built in a fraction of the time.
    environment |= {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    command = ["cargo", *arguments, "--locked", "--target", host]
    return outcome.told("tests of the Rust crates", command, _NATIVE, environment, say)


def _runtime() -> str | None:
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    path = found.stdout.strip()
    return path if found.returncode == 0 and Path(path).is_absolute() else None


def _bindings(outcome: Outcome, say: Say) -> None:
    runtime = _runtime()
    if runtime is None:
        outcome.left_out = "the bindings: the C compiler has no libasan.so"
        return
    if not _cargo(outcome, say, "build", "--release", "--package", "diskstream-native"):
        return
    with tempfile.TemporaryDirectory(prefix="diskstream-sanitized-") as place:
        # A copy of the package beside the sanitized library: the one that is installed stays as it is.
        root = Path(place)
        for folder in ("diskstream", "tests", "tools", "docs"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)
        (built,) = _BUILT.glob("*/release/lib_native.so")
        shutil.copy(built, root / "diskstream" / "_native.abi3.so")
        environment = {**os.environ, "LD_PRELOAD": runtime, "PYTHONPATH": str(root), "PYTHONMALLOC": "malloc"}
        environment["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_TESTS]
        outcome.told("tests of the bindings", command, root, environment, say)


def sanitized(say: Say) -> Outcome:
    """Runs both, as long as nothing fails; `say` is given each line of what they say."""
    outcome = Outcome()
    packages = [word for crate in _CRATES for word in ("--package", crate)]
    if _cargo(outcome, say, "test", *packages):
        _bindings(outcome, say)
    return outcome


def main() -> int:
    """Runs both; 0 where the sanitizer had nothing to say."""
    outcome = sanitized(lambda line: sys.stdout.write(f"{line}\n"))
    if outcome.left_out:
        sys.stdout.write(f"left out: {outcome.left_out}\n")
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
