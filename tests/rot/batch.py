"""Tries damages one after the other, and says each before it is tried: the last line tells what killed the process.

``python -m tests.rot.batch SEED SUBJECT START COUNT SECONDS``
"""

import json
import resource
import sys
import time
from pathlib import Path

from tests.engine.sample import fast_directory
from tests.rot.damages import damages
from tests.rot.seen import Witness
from tests.rot.subjects import SUBJECTS

__all__ = ["main"]


def main(seed: int, subject: int, start: int, seconds: float) -> None:
    """Tries damages from a number on, until the time is up."""
    # A length that is believed must not take all memory. (The view's map takes 64 GiB of addresses.)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    until = time.monotonic() + seconds
    with fast_directory() as directory:
        victim = SUBJECTS[subject](directory / "ours")
        others = SUBJECTS[subject](directory / "others").tree.files
        for number, damage in damages(victim.tree.files, victim.paths(), seed, others, start=start):
            say(["next", number, damage.kind, f"{victim.name}: {damage.label}"])
            outcome, offences = victim.run(number, damage)
            say(["came", number, outcome, [each.replace(str(victim.root), "PLACE") for each in offences]])
            if time.monotonic() > until:
                break
    say(["done"])


def say(line: list[object]) -> None:
    """A line to whoever started this."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
