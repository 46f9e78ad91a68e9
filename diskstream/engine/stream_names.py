"""The names of a store's streams, as one sees them who looks often: what was there before is not looked at again."""

from collections.abc import Mapping
from pathlib import Path

from diskstream.engine import names, replacing, stream_folders
from diskstream.engine.descriptors import listing

__all__ = ["look_again"]


def look_again(streams: Path, known: Mapping[str, bytes]) -> dict[str, bytes]:
    """The name of each stream by that of its directory, also of those that are put aside, as `list_streams`.

    The directory is listed, but only of what was not there before is it asked whether and which stream it is.

    Args:
        streams: where they are.
        known: what this returned before; empty at first.

    Raises:
        StorageError: it cannot be listed.
    """
    with stream_folders.within(streams, "list"), listing(streams) as entries:
        there = {replacing.original(entry.name): entry for entry in entries}
        found = {folder: known[folder] for folder in known.keys() & there.keys()}
        for folder in there.keys() - known.keys():
            entry = there[folder]
            if entry.is_dir(follow_symlinks=False):
                name = names.decode_plain(folder) or replacing.name_of(Path(entry.path))
                if name is not None:
                    found[folder] = name
    return found
