"""The entries: small ones like ``sensor-id 1234 temperature 19.8``, the same for every contender and every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle

Fields = dict[str, str]

SEED = 20


def sensor_entries(count: int, seed: int = SEED) -> list[Fields]:
    """`count` readings of nine thousand sensors, values varying, from a seeded generator."""
    chance = random.Random(seed)
    return [
        {"sensor-id": str(chance.randrange(1000, 10000)), "temperature": f"{chance.uniform(-20, 40):.1f}"}
        for _ in range(count)
    ]


def batches(rows: list[Fields], size: int) -> Iterator[list[Fields]]:
    """The rows over and over, in lists of `size` made beforehand, so that no contender pays for cutting them."""
    return cycle([rows[at : at + size] for at in range(0, len(rows) - size + 1, size)])
