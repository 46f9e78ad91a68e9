"""The recorded baseline: what an operation cost, where, and how far it may move."""

from __future__ import annotations

import json
import platform
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.counts.measuring import NATIVE, Count

FORMAT = 1
ALLOWED = 0.05
# A baseline whose runs lie further apart could not tell a change from chance. All but one are within 0.5 %; why XRANGE
# through the server varies by 2.5 % is not known yet.
STEADY = 0.03
PATH = Path(__file__).with_name("baseline.json")

Environment = dict[str, str]


def environment() -> Environment:
    """What other counts would come from: counts are compared where all of it is the same."""
    import diskstream

    native = Path(diskstream.__file__).with_name(NATIVE).read_bytes()
    _, _, after = native.partition(b"rustc version ")
    built = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = [word for word in ("--enable-optimizations", "--with-lto", "--enable-shared") if word in built]
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "architecture": platform.machine(),
        "vector instructions": "AVX2" if " avx2 " in flags else "none",
        "Python": " ".join([platform.python_version(), platform.python_compiler(), *optimised]),
        "C library": " ".join(platform.libc_ver()),
        "rustc": after[:20].split(b" ")[0].decode("ascii", "replace") or "unknown",
        "valgrind": valgrind.strip(),
    }


@dataclass(frozen=True)
class Change:
    """How one workload's count stands against the baseline; `share` is None where there is none."""

    name: str
    count: Count
    before: float | None

    @property
    def share(self) -> float | None:
        return None if self.before is None else self.count.instructions / self.before - 1

    @property
    def verdict(self) -> str:
        if self.share is None:
            return "new: record it"
        if self.share > ALLOWED:
            return "dearer"
        return "cheaper: record it" if self.share < -ALLOWED else ""


def compare(found: Mapping[str, Count], before: Mapping[str, float]) -> list[Change]:
    """Every workload beside its baseline."""
    return [Change(name, count, before.get(name)) for name, count in found.items()]


def load(path: Path = PATH) -> list[dict[str, Any]]:
    """The baselines, one for each environment."""
    if not path.exists():
        return []
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if read["format"] != FORMAT:
        raise SystemExit(f"bench.counts: {path.name} is of format {read['format']!r}, and this reads {FORMAT}")
    return list(read["baselines"])


def here(baselines: Sequence[dict[str, Any]], now: Environment) -> dict[str, float] | None:
    """The counts recorded in an environment like this one, by workload; None where there are none."""
    for each in baselines:
        if each["environment"] == now:
            return {name: float(count["instructions"]) for name, count in each["workloads"].items()}
    return None


def differences(baselines: Sequence[dict[str, Any]], now: Environment) -> str:
    """In what this environment differs from the recorded one that is nearest to it."""
    apart: list[list[str]] = [
        [
            f"{name} {now.get(name)}, not {value}"
            for name, value in each["environment"].items()
            if now.get(name) != value
        ]
        for each in baselines
    ]
    nearest = min(apart, key=len, default=["nothing was recorded"])
    return "; ".join(nearest)


def record(runs: Sequence[Mapping[str, Count]], now: Environment, path: Path = PATH) -> None:
    """Writes the medians of several runs as the baseline of this environment.

    Raises:
        SystemExit: the runs lie too far apart.
    """
    workloads = {}
    for name in runs[0]:
        samples = [run[name].instructions for run in runs]
        spread = max(samples) / min(samples) - 1
        if spread > STEADY:
            raise SystemExit(f"bench.counts: {name} varies by {spread:.1%} from run to run: it is no measure")
        middle = sorted((run[name] for run in runs), key=lambda count: count.instructions)[len(runs) // 2]
        workloads[name] = {key: round(value, 1) for key, value in asdict(middle).items()} | {"spread": round(spread, 5)}
    others = [each for each in load(path) if each["environment"] != now]
    text = json.dumps(
        {"format": FORMAT, "baselines": [*others, {"environment": now, "workloads": workloads}]},
        indent=1,
        ensure_ascii=False,
    )
    path.write_text(text + "\n", encoding="utf-8")
