"""The targets of native/fuzz under libFuzzer and the address sanitizer: built, run, and what they found.

It needs no cargo-fuzz and no nightly toolchain: the flags are those that cargo-fuzz passes, and a stable compiler takes
them from whoever asks for it (`RUSTC_BOOTSTRAP`). What it needs beside is a C++ compiler, for libFuzzer itself, and the
sanitizer's runtime, which rustup's toolchains bring.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CORPUS", "FOUND", "GROWN", "PLANTED", "NotBuiltError", "Outcome", "build", "fuzz", "keep_few", "targets"]

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "native" / "fuzz" / "corpus"
_CRATE = ROOT / "native" / "fuzz" / "libfuzzer"
_BUILT = ROOT / "native" / "target" / "fuzz"
FOUND, GROWN = _BUILT / "found", _BUILT / "corpus"
PLANTED = ("planted panic", "planted overflow", "planted leak", "planted allocation", "planted read")

_FLAGS = (
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg fuzzing",
    "-Ccodegen-units=1",
)
# The largest documented allocation for a few bytes is a bitmap of 2^32 positions; what is beyond follows a size that
# nobody looked at.
_LIMITS = ("-malloc_limit_mb=600", "-rss_limit_mb=2048", "-timeout=25", "-max_len=4096")
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
_PANICKED = re.compile(r"panicked at (.+?):\n(.+)")
_SUMMARY = re.compile(r"^(?:SUMMARY|==\d+== ?ERROR|==\d+==ERROR): (.+)$", re.MULTILINE)


class NotBuiltError(Exception):
    """The fuzzer cannot be built here; says why."""


@dataclass(frozen=True)
class Outcome:
    """What came of a target.

    Attributes:
        executed: how many inputs it took.
        fault: what it died of, with the input; empty where it did not.
    """

    target: str
    executed: int
    fault: str = ""


def targets() -> list[str]:
    """The names of all targets: each has a folder of inputs."""
    return sorted(path.name for path in CORPUS.iterdir())


def build(seconds: float | None = None) -> Path:
    """Builds the fuzzer, if anything changed. Returns the program.

    Raises:
        NotBuiltError: it cannot be built here.
    """
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        raise NotBuiltError("there is no cargo")
    if shutil.which("c++") is None:
        raise NotBuiltError("there is no C++ compiler, which libFuzzer needs")
    path = f"{Path(cargo).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_ENCODED_RUSTFLAGS"}
    environment |= {
        "PATH": path,
        "RUSTC_BOOTSTRAP": "1",
        "RUSTFLAGS": " ".join(_FLAGS),
        "CARGO_TARGET_DIR": str(_BUILT),
    }
    # A target that is named keeps the flags from build scripts and macros, which run in the compiler.
    told = subprocess.run(["rustc", "-vV"], env=environment, capture_output=True, text=True, check=False)
    host = next((line.split()[1] for line in told.stdout.splitlines() if line.startswith("host:")), "")
    command = [cargo, "build", "--quiet", "--locked", "--release", "--target", host]
    try:
        done = subprocess.run(
            command, cwd=_CRATE, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise NotBuiltError(f"it was not built within {seconds:.0f} s") from None
    if done.returncode:
        told_last = [line for line in done.stderr.splitlines() if line.startswith("error")] or [done.stderr[-200:]]
        raise NotBuiltError(f"cargo says: {told_last[0]}")
    return _BUILT / host / "release" / "diskstream-libfuzzer"


def _arguments(target: str, seconds: float, seed: int) -> Iterator[str]:
    for folder in (GROWN / target, CORPUS / target):
        if folder.parent == GROWN:
            folder.mkdir(parents=True, exist_ok=True)
        if folder.is_dir():
            yield str(folder)
    (FOUND / target).mkdir(parents=True, exist_ok=True)
    yield from (f"-max_total_time={max(1, round(seconds))}", f"-seed={seed % 2**32 or 1}", "-print_final_stats=1")
    yield f"-artifact_prefix={FOUND / target}{os.sep}"
    yield from _LIMITS


def fuzz(program: Path, target: str, seconds: float, seed: int) -> Outcome:
    """Runs one target for a time: new inputs that reach further are kept in `GROWN`, one that it died of in `FOUND`."""
    command = [str(program), *_arguments(target, seconds, seed)]
    done = subprocess.run(
        command,
        env={**os.environ, "FUZZ_TARGET": target},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + 300,
    )
    executed = sum(int(number) for number in _EXECUTED.findall(done.stderr))
    if done.returncode == 0:
        return Outcome(target, executed)
    panicked, summary = _PANICKED.search(done.stderr), _SUMMARY.search(done.stderr)
    what = f"{panicked[2]} at {panicked[1]}" if panicked else summary[1] if summary else done.stderr[-300:]
    kept = sorted((FOUND / target).iterdir(), key=lambda path: path.stat().st_mtime)
    where = f"FUZZ_TARGET='{target}' {program} {kept[-1]}" if kept else "no input was kept"
    return Outcome(target, executed, f"{target}: {what}: {where}")


_MOST_BYTES, _MOST_INPUTS = 2048, 24


def keep_few(program: Path, target: str, most: int) -> list[bytes]:
    """Of all inputs of a target, few that together reach nearly as far: for the corpus in the repository."""
    merged = _BUILT / "merged" / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    command = [str(program), "-merge=1", str(merged), str(GROWN / target), str(CORPUS / target), *_LIMITS]
    subprocess.run(command, env={**os.environ, "FUZZ_TARGET": target}, capture_output=True, check=True)
    inputs = sorted((path.read_bytes() for path in merged.iterdir()), key=lambda data: (len(data), data))
    small = [data for data in inputs if len(data) <= _MOST_BYTES]
    step = max(1, -(-len(small) // most))
    return small[::-1][::step][:most]


def main() -> None:
    """Adds to the corpus of the repository what the last runs found: ``python -m tests.fuzz.libfuzzer``."""
    program = build()
    for target in targets():
        folder = CORPUS / target
        seeds = [path for path in folder.iterdir() if path.name.startswith(("seed-", "found-"))]
        kept = keep_few(program, target, _MOST_INPUTS)
        for path in set(folder.iterdir()) - set(seeds):
            path.unlink()
        for data in kept:
            (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


if __name__ == "__main__":
    main()
