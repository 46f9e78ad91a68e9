"""Offsets of a streaming read: for each stream the ID of the last entry that was read, as JSON that a person can read.

::

    {"sensors": "1692632086370-0", "logs": "0-0", "%group": "[\"/data/store\", \"workers\"]"}

Names are as `names.as_text` gives them. ``%group`` is no such name: it tells the progress listener which consumer group
of which store follows the query.
"""

import json
from collections.abc import Mapping

from diskstream.ids import EntryID, parse_id
from diskstream.spark.names import as_bytes, as_text

__all__ = ["decode", "encode", "followed"]

_GROUP = "%group"


def encode(positions: Mapping[bytes, EntryID], path: str = "", group: str = "") -> dict[str, str]:
    """Positions as an offset; with `group`, the store and the group that is to follow."""
    offset = {as_text(name): str(at) for name, at in sorted(positions.items())}
    if group:
        offset[_GROUP] = json.dumps([path, group])
    return offset


def decode(offset: Mapping[str, str]) -> dict[bytes, EntryID]:
    """The positions of an offset."""
    return {as_bytes(name): parse_id(at) for name, at in offset.items() if name != _GROUP}


def followed(offset: Mapping[str, str]) -> tuple[str, str] | None:
    """Store and group that follow the query."""
    if _GROUP not in offset:
        return None
    path, group = json.loads(offset[_GROUP])
    return str(path), str(group)
