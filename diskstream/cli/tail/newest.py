"""What `diskstream tail` begins with: the newest entries of a stream, or all from an ID on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import diskstream

if TYPE_CHECKING:
    from diskstream.cli.tail.follower import Follower

# So many are held in memory to be turned round; of more, the first is looked for, and all are read again from there.
_HELD = 10_000


def newest(follower: Follower, count: int) -> Iterator[diskstream.Entry]:
    """The newest `count` entries up to where the follower begins, the oldest of them first."""
    backwards = follower.stream.revrange(follower.position, "-", count)
    if count <= _HELD:
        yield from reversed(list(backwards))
        return
    first = None
    for entry in backwards:
        first = entry.id
    if first is not None:
        yield from follower.stream.range(first, follower.position)


def from_start(follower: Follower, start: str) -> Iterator[diskstream.Entry]:
    """All entries from `start` up to where the follower begins."""
    return follower.stream.range(start, follower.position)
