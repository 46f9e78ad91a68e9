"""The memory of an archiver is bounded, whatever comes while it follows."""

import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import diskstream
from tests.archiving.world import World
from tests.engine.children import until

VALUE = b"v" * 4000
# The lesser fills a segment of each stream, which is sealed beside: that takes the most memory, and as much for any.
SMALL, LARGE = 40_000, 80_000
# What two runs may differ by, of 160 MB more that come.
MORE_MIB = 100

PROGRAM = """
import sys
from diskstream.cli import main
try:
    main(sys.argv[1:])
finally:
    # Not of getrusage: that is inherited from the process that started this one.
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""
KEYS = ("a", "b")


def peak_mib(world: World, directory: Path, entries: int) -> int:
    """Of an archiver that follows two streams, copies and trims, while so many entries come."""
    world.client.delete(*KEYS)
    for key in KEYS:
        world.client.xadd(key, {"first": "entry"})
    words = ["archive", "--from", world.url, "--key", "*", "--to", str(directory), "--trim", "--follow"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        numbers = count()
        for _ in range(entries // len(KEYS) // 500):
            with world.client.pipeline(transaction=False) as pipeline:
                for key in KEYS * 500:
                    pipeline.xadd(key, {"number": next(numbers), "value": VALUE})
                pipeline.execute()
        until(lambda: not any(world.client.xlen(key) for key in KEYS), 60)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    with diskstream.open(directory, read_only=True) as store:
        assert sum(len(store.stream(key)) for key in KEYS) == entries + len(KEYS)
    return int(said.split()[-1]) // 1024


def test_an_archiver_that_much_comes_to_takes_little_more_memory_than_one_to_which_little_comes(
    world: World, tmp_path: Path
) -> None:
    small, large = peak_mib(world, tmp_path / "small", SMALL), peak_mib(world, tmp_path / "large", LARGE)
    assert large < small + MORE_MIB, (small, large)
