"""Tries damages one after the other, and says each before it is tried: the last line tells what killed the process.

``python -m tests.rot.batch SEED SUBJECT START STEP SECONDS``

No two stores are the same byte by byte, so a number alone does not bring a damage back: what was not survived is kept,
as it was damaged, in a folder for temporary files. Where the process dies, its place is left as it is.
"""

import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.engine.sample import fast_directory
from tests.rot.damages import Damage, damages
from tests.rot.subjects import SUBJECTS, Subject

__all__ = ["main"]


def main(seed: int, subject: int, start: int, step: int, seconds: float) -> None:
    """Tries every `step`-th damage from a number on, until the time is up."""
    # A length that is believed must not take all memory. (The view's map takes 64 GiB of addresses.)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    until = time.monotonic() + seconds
    with fast_directory() as directory:
        say(["in", str(directory)])
        victim = SUBJECTS[subject](directory / "ours")
        others = SUBJECTS[subject](directory / "others").tree.files
        for number, damage in damages(victim.tree.files, victim.paths(), seed, others, start=start, step=step):
            say(["next", number, damage.kind, f"{victim.name}: {damage.label}"])
            outcome, offences = victim.run(number, damage)
            told = [each.replace(str(victim.root), "PLACE") for each in offences]
            say(["came", number, outcome, told, keep(victim, damage) if offences else ""])
            if time.monotonic() > until:
                break
    say(["done"])


def keep(victim: Subject, damage: Damage) -> str:
    """Keeps a damaged place, for whoever looks for the reason. Returns where."""
    victim.tree.damage(damage)
    kept = Path(tempfile.mkdtemp(prefix="diskstream-rot-"))
    shutil.copytree(victim.root, kept / "ours", symlinks=True)
    victim.tree.restore()
    return str(kept)


def say(line: list[object]) -> None:
    """A line to whoever started this."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
