"""The memory of an archiver is bounded, whatever comes while it follows; and that of the server which it trims."""

import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import diskstream
from tests.archiving.test_trimming import trimmed_by_hand
from tests.archiving.world import World
from tests.engine.children import until

VALUE = b"v" * 4000
# The lesser fills a segment of each stream, which is sealed beside: that takes the most memory, and as much for any.
SMALL, LARGE = 40_000, 80_000
# What two runs may differ by, of 160 MB more that come.
MORE_MIB = 100
RUNS = 3
# What a step of 8 MiB may take: as words, joined, and joined once more; twice that, since Lua collects later.
STEP_MIB = 48

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
    small, large = peak_mib(world, tmp_path / "small", SMALL), list[int]()
    # What it keeps shows in every run; how far the threads happen to be apart, and what the allocator keeps, does not.
    while not large or (min(large) >= small + MORE_MIB and len(large) < RUNS):
        large.append(peak_mib(world, tmp_path / f"large {len(large)}", LARGE))
    assert min(large) < small + MORE_MIB, (small, large)


def resident_mib(pid: int, which: str) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) >> 10


@pytest.mark.parametrize("held_back", [False, True], ids=["as it was copied", "once groups let go of it"])
def test_the_server_reads_no_more_of_large_entries_at_once_than_a_step_takes(
    second: Any, tmp_path: Path, held_back: bool
) -> None:
    """It read a hundred of them, whatever they took, and then looked how many bytes they had."""
    url = "redis://127.0.0.1:{port}/9".format(**second.connection_pool.connection_kwargs)
    world = World(url, second, tmp_path / "store")
    for number in range(1, 101):
        second.xadd("s", {"large": b"v" * (1 << 20 if number > 20 else 10)}, f"{number}-1")
    world.archive()
    pid = second.info("server")["process_id"]
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the most it ever took is what it takes now
    before = resident_mib(pid, "VmHWM")
    assert trimmed_by_hand(world, "100-1", held_back=held_back).entries == 100
    assert resident_mib(pid, "VmHWM") - before < STEP_MIB
