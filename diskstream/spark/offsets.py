"""Offsets of a streaming read: for each stream the ID of the last entry that was read, as JSON that a person can read.

::

    {"sensors": "1692632086370-0", "logs": "0-0", "%group": "[\"/data/store\", \"workers\"]",
     "%streams": "{\"sensors\": \"6f1d...\", \"logs\": \"02c4...\"}", "%new": "{\"logs\": \"0-0\"}"}

Names are as `names.as_text` gives them; the last three are no such names. ``%group`` tells the progress listener which
consumer group of which store follows the query. ``%streams`` says which streams these were (`Stream.identity`): others
may come under their names. ``%new`` says where those begin that the offset before did not have, or had as others; and
in the first offset of a query, all.
"""

import json
from collections.abc import Mapping

from diskstream.ids import EntryID, parse_id
from diskstream.spark.names import as_bytes, as_text

__all__ = ["decode", "encode", "followed", "identities", "new_ones"]

_GROUP, _STREAMS, _NEW = _BESIDE = "%group", "%streams", "%new"


def encode(
    positions: Mapping[bytes, EntryID],
    path: str = "",
    group: str = "",
    *,
    streams: Mapping[bytes, bytes] | None = None,
    new: Mapping[bytes, EntryID] | None = None,
) -> dict[str, str]:
    """Positions as an offset.

    Args:
        positions: by the streams' names.
        path, group: the store and the group that is to follow, where there is one.
        streams: what each stream is known by, whatever its name.
        new: where those begin that have no position in the offset before, or that of another stream.
    """
    offset = {as_text(name): str(at) for name, at in sorted(positions.items())}
    if group:
        offset[_GROUP] = json.dumps([path, group])
    if streams:
        offset[_STREAMS] = json.dumps({as_text(name): each.hex() for name, each in sorted(streams.items())})
    if new:
        offset[_NEW] = json.dumps({as_text(name): str(at) for name, at in sorted(new.items())})
    return offset


def decode(offset: Mapping[str, str]) -> dict[bytes, EntryID]:
    """The positions of an offset."""
    return {as_bytes(name): parse_id(at) for name, at in offset.items() if name not in _BESIDE}


def identities(offset: Mapping[str, str]) -> dict[bytes, bytes]:
    """Which streams the names of an offset stood for, as far as it says so."""
    return {as_bytes(name): bytes.fromhex(each) for name, each in json.loads(offset.get(_STREAMS, "{}")).items()}


def new_ones(offset: Mapping[str, str]) -> dict[bytes, EntryID]:
    """Where streams begin that the offset before did not have, or had as others of their names."""
    return {as_bytes(name): parse_id(at) for name, at in json.loads(offset.get(_NEW, "{}")).items()}


def followed(offset: Mapping[str, str]) -> tuple[str, str] | None:
    """Store and group that follow the query."""
    if _GROUP not in offset:
        return None
    path, group = json.loads(offset[_GROUP])
    return str(path), str(group)
