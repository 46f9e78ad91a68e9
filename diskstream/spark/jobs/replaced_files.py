"""Files of an archive that somebody noted, and that a compaction has made others of since."""

import re
from collections.abc import Iterable, Sequence

from diskstream.errors import ArgumentError
from diskstream.ids import EntryID
from diskstream.spark.jobs.manifest import ArchivedFile

__all__ = ["Part", "as_they_are"]

Part = tuple[str, str, str, str]  # target stream, source stream or file, first ID, last ID
_NAME = re.compile(r"part-(\d+-\d+)-(\d+-\d+)-[0-9a-f]{32}\.parquet")


def as_they_are(parts: Iterable[Part], files: Sequence[ArchivedFile]) -> tuple[Part, ...]:
    """Parts of the files that now hold the same rows: of a file's own IDs, which its name says, and in its folder.

    Args:
        parts: of files that some version of the archive named.
        files: those of its latest version.

    Raises:
        ArgumentError: none of these holds rows of a part.
    """
    named = {each.path for each in files}
    found: list[Part] = []
    for target, path, low, high in parts:
        if path in named:
            found.append((target, path, low, high))
            continue
        folder, _, name = path.rpartition("/")
        ends = _NAME.fullmatch(name)
        first, last = (ends[1], ends[2]) if ends else (low, high)
        within = max(EntryID(low), EntryID(first)), min(EntryID(high), EntryID(last))
        beside = (each for each in files if each.folder == folder)
        others = [each for each in beside if ends and each.last >= within[0] and each.first <= within[1]]
        if not others:
            raise ArgumentError(
                f"the replay was begun, but the archive has {path} no longer, nor another file of its rows: replay "
                "what is left under another name, with the option start"
            )
        found += [
            (target, each.path, str(within[0]), str(within[1])) for each in sorted(others, key=lambda each: each.first)
        ]
    return tuple(found)
