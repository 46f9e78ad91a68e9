"""What a replay was to read and what is in its place now: files that were compacted, another archive, another store."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import diskstream
from diskstream.errors import ArgumentError
from diskstream.ids import EntryID
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest
from diskstream.spark.names import as_bytes

__all__ = ["REPLAY_THE_REST", "FilesNow", "Part", "as_they_are", "check_archive", "check_streams"]

REPLAY_THE_REST: Final = "replay what is left under another name, with the option start"

Part = tuple[str, str, str, str]  # target stream, source stream or file, first ID, last ID
_NAME = re.compile(r"part-(\d+-\d+)-(\d+-\d+)-[0-9a-f]{32}\.parquet")


def check_streams(path: str, parts: Iterable[Part], identities: Iterable[str]) -> None:
    """Looks whether the streams of a store, or of its lease, still are those that were planned.

    Args:
        path: where it is.
        parts: what is to be read.
        identities: what each part's stream is known by for life, in hex; an empty text where that is not known.

    Raises:
        ArgumentError: one was deleted or made anew, or is of another store.
    """
    with diskstream.open(path, read_only=True) as store:
        for source, known in sorted({(part[1], known) for part, known in zip(parts, identities, strict=True) if known}):
            if (store.stream(as_bytes(source)).identity() or b"").hex() != known:
                raise ArgumentError(
                    f"the replay was begun, but the stream {source} of {path} is gone, or another one is in its place: "
                    f"{REPLAY_THE_REST}"
                )


def check_archive(path: str, now: Manifest, identities: Sequence[str]) -> None:
    """Looks whether an archive still is of the store that it was of.

    Args:
        path: where it is.
        now: its latest version.
        identities: that store's; nothing where it is not known.

    Raises:
        ArgumentError: it is of another one.
    """
    if identities and identities[0] != now.store:
        raise ArgumentError(
            f"the replay was begun, but at {path} is the archive of another store now: {REPLAY_THE_REST}"
        )


class FilesNow:
    """The files of an archive's latest version: by their paths, and those of each folder."""

    def __init__(self, files: Iterable[ArchivedFile]) -> None:
        """Sorts them out, once for all that is asked of them."""
        self.by_path: dict[str, ArchivedFile] = {}
        self.by_folder: dict[str, list[ArchivedFile]] = {}
        for each in files:
            self.by_path[each.path] = each
            self.by_folder.setdefault(each.folder, []).append(each)


def as_they_are(parts: Iterable[Part], files: FilesNow) -> tuple[Part, ...]:
    """Parts of the files that now hold the same rows: of a file's own IDs, which its name says, and in its folder.

    Args:
        parts: of files that some version of the archive named.
        files: those of its latest version.

    Raises:
        ArgumentError: none of these holds rows of a part.
    """
    found: list[Part] = []
    for target, path, low, high in parts:
        if path in files.by_path:
            found.append((target, path, low, high))
            continue
        folder, _, name = path.rpartition("/")
        ends = _NAME.fullmatch(name)
        first, last = (ends[1], ends[2]) if ends else (low, high)
        within = max(EntryID(low), EntryID(first)), min(EntryID(high), EntryID(last))
        beside = files.by_folder.get(folder, [])
        others = [each for each in beside if ends and each.last >= within[0] and each.first <= within[1]]
        if not others:
            raise ArgumentError(
                f"the replay was begun, but the archive has {path} no longer, nor another file of its rows: "
                f"{REPLAY_THE_REST}"
            )
        found += [
            (target, each.path, str(within[0]), str(within[1])) for each in sorted(others, key=lambda each: each.first)
        ]
    return tuple(found)
