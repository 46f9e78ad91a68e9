"""Memory is bounded, whatever is exported."""

import subprocess
import sys
from pathlib import Path

import pytest

import diskstream

VALUE_BYTES = 2000
SMALL, LARGE = 5_000, 180_000
# What two runs may differ by, of 350 MB more that are exported: with four threads five pieces are under way.
MORE_MIB = 260

EXPORT = """
import sys
from diskstream.cli import main
main(sys.argv[1:], standalone_mode=False)
# Not of getrusage: that is inherited from the process that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Streams of both sizes. Their values are no two alike, and pack well."""
    made = tmp_path_factory.mktemp("bounded") / "store"
    with diskstream.open(made, fsync="os") as store:
        for name, entries in (("small", SMALL), ("large", LARGE)):
            for begin in range(0, entries, 5000):
                store.stream(name).add_many(
                    [{"value": f"{number}".ljust(VALUE_BYTES)} for number in range(begin, begin + 5000)]
                )
        store.seal()
    return made


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_an_export_of_much_takes_little_more_memory_than_one_of_little(path: Path, tmp_path: Path, kind: str) -> None:
    def peak_mib(name: str) -> int:
        words = ["export", name, "-d", str(path), "-o", str(tmp_path / f"{name}.{kind}"), "--json"]
        done = subprocess.run([sys.executable, "-c", EXPORT, *words], capture_output=True, text=True, check=True)
        (tmp_path / f"{name}.{kind}").unlink()
        return int(done.stdout.splitlines()[-1]) // 1024

    assert peak_mib("large") < peak_mib("small") + MORE_MIB
