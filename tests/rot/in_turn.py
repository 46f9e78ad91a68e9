"""Flips one bit of each byte of a small store, one byte after the other, and says each before it is tried.

``python -m tests.rot.in_turn SEED PLACE PLACES SECONDS``

Of so many processes each takes every so-manieth byte, of a store of its own; they are alike, but for what is random in
them (identities, checksums). Where the process dies, its store is left as it is.
"""

import random
import resource
import sys
import time

from tests.engine.sample import fast_directory
from tests.rot.batch import keep, say
from tests.rot.damages import every_byte, flipped
from tests.rot.subjects import SmallStore

__all__ = ["main"]


def main(seed: int, place: int, places: int, seconds: float) -> None:
    """Goes through its share of the bytes, until the time is up."""
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    until = time.monotonic() + seconds
    chance = random.Random(f"{seed} {place}")
    with fast_directory() as directory:
        say(["in", str(directory)])
        victim = SmallStore(directory / "ours")
        order = every_byte(victim.tree.files, victim.paths(), seed)[place::places]
        say(["all", len(order)])
        for number, (path, at) in enumerate(order):
            damage = flipped(victim.tree.files, path, at, chance.randrange(8))
            say(["next", damage.label])
            outcome, offences = victim.run(number * places + place, damage)
            told = [each.replace(str(victim.root), "PLACE") for each in offences]
            say(["came", outcome, told, keep(victim, damage) if offences else ""])
            if time.monotonic() > until:
                break
    say(["done"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
