"""The tests of the Rust crates, and some of the bindings, under the address sanitizer.

The crates are built as their own tests, with the sanitizer in the program. The bindings are a library of Python's: the
sanitizer's runtime is loaded before it, that of the C compiler, whose calls are the same. A real Python leaks what it
needs to its end, so leaks of the bindings are not looked for.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.libfuzzer import ROOT

__all__ = ["main"]

_NATIVE = ROOT / "native"
_BUILT = _NATIVE / "target" / "sanitized"
_CRATES = ("diskstream-core", "diskstream-sys", "diskstream-fuzz")
# Those that reach far into the bindings, and start no other processes.
_TESTS = ("tests/wire", "tests/test_format.py", "tests/streams/test_columns.py", "tests/streams/test_delete.py")


def _cargo(*arguments: str) -> int:
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in told.splitlines() if line.startswith("host:"))
    flags = "-Zsanitizer=address -Cdebug-assertions=on -Coverflow-checks=on"
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(_BUILT)}
    environment["PYO3_PYTHON"] = sys.executable
    # Speed is not the point here: without these it is built in a fraction of the time.
    environment |= {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    return subprocess.run(
        ["cargo", *arguments, "--locked", "--target", host], cwd=_NATIVE, env=environment, check=False
    ).returncode


def _runtime() -> str | None:
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    path = found.stdout.strip()
    return path if found.returncode == 0 and Path(path).is_absolute() else None


def _bindings() -> int:
    runtime = _runtime()
    if runtime is None:
        sys.stdout.write("the bindings are left out: the C compiler has no libasan.so\n")
        return 0
    if failed := _cargo("build", "--release", "--package", "diskstream-native"):
        return failed
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
        return subprocess.run(command, cwd=root, env=environment, check=False).returncode


def main() -> int:
    """Runs both; 0 where the sanitizer had nothing to say."""
    packages = [word for crate in _CRATES for word in ("--package", crate)]
    return _cargo("test", *packages) or _bindings()


if __name__ == "__main__":
    sys.exit(main())
