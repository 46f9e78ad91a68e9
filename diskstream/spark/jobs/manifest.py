"""The manifest of an archive: which files it consists of, and up to where each stream is archived.

::

    <archive>/_manifest/000000000007.json      version 7; the greatest version is the archive
    <archive>/_jobs/<job>                      empty; while a job runs it is touched: see `garbage`
    <archive>/stream=<name>/date=2026-11-21/[hour=13/]part-<first>-<last>-<job><random>.parquet

A version is never changed. The next one is made whole or not at all, by one job only: of two that go on from the same
version, the second finds that there is one already. A file counts because the manifest names it; what else lies about
was left by a killed job, or belongs to an older version, and goes by `garbage.collect`. See docs/format/archive.md.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import diskstream
from diskstream.checked_json import check_of, is_whole
from diskstream.errors import ArchiveChangedError, ArchiveError, NewerFormatError
from diskstream.ids import EntryID, parse_id
from diskstream.spark.jobs.digest import Digest
from diskstream.spark.jobs.place import Place
from diskstream.spark.names import as_bytes, as_text

__all__ = [
    "FOLDER",
    "FORMAT",
    "ArchivedFile",
    "Manifest",
    "Reach",
    "Shape",
    "by_stream",
    "commit",
    "latest",
    "load",
    "there",
    "versions",
]

FORMAT: Final = 1
FOLDER: Final = "_manifest"
_NAME = re.compile(rf"{FOLDER}/(\d{{12}})\.json")


@dataclass(frozen=True)
class Shape:
    """What every file of an archive has in common; the first job decides.

    Attributes:
        layout: ``fields`` (lossless) or ``typed``.
        columns: of ``typed``, the fields that are kept and their types, as `Stream.scan` takes them.
        hourly: a folder for each hour below that of the day.
    """

    layout: str = "fields"
    columns: tuple[tuple[str, str], ...] = ()
    hourly: bool = False


@dataclass(frozen=True)
class ArchivedFile:
    """A file of the archive.

    Attributes:
        path: below the archive.
        stream: the stream's name.
        first, last: IDs of its first and its last row.
        rows, size_bytes: how much it holds, and its size.
        digest: of its rows.
        created_ms: when it was written, in ms since 1970.
        source: what it was made from: ``store`` or ``compact``.
    """

    path: str
    stream: bytes
    first: EntryID
    last: EntryID
    size_bytes: int
    digest: Digest
    created_ms: int
    source: str

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.digest.rows

    @property
    def folder(self) -> str:
        """The folder of the partition."""
        return self.path.rpartition("/")[0]


def by_stream(files: Iterable[ArchivedFile]) -> dict[bytes, list[ArchivedFile]]:
    """The files of each stream, in their order."""
    found: dict[bytes, list[ArchivedFile]] = {}
    for each in files:
        found.setdefault(each.stream, []).append(each)
    return found


@dataclass(frozen=True)
class Reach:
    """The IDs between which all entries of a stream that were live then are archived, both included.

    Attributes:
        first, last: the IDs.
        identity: of the stream that was archived last (`Stream.identity`): a stream that was made anew may have others
            under these IDs. None in archives of before this was noted.
    """

    first: EntryID
    last: EntryID
    identity: bytes | None = None


@dataclass(frozen=True)
class Manifest:
    """One version of an archive.

    Attributes:
        version: from 1; 0 is an archive that is not there yet.
        store: the identity of the store that it is of.
        shape: what its files have in common.
        streams: how far each stream is archived.
        files: all of them, by stream and first ID.
        operation: what made this version: ``archive`` or ``compact``.
        made_ms: when, in ms since 1970.
    """

    version: int = 0
    store: str = ""
    shape: Shape = field(default_factory=Shape)
    streams: Mapping[bytes, Reach] = field(default_factory=dict)
    files: tuple[ArchivedFile, ...] = ()
    operation: str = ""
    made_ms: int = 0

    def next(self, operation: str, files: tuple[ArchivedFile, ...], **changes: Any) -> "Manifest":
        """The version after this one, of these files."""
        ordered = tuple(sorted(files, key=lambda each: (each.stream, each.first)))
        made_ms = time.time_ns() // 1_000_000
        return replace(self, version=self.version + 1, operation=operation, files=ordered, made_ms=made_ms, **changes)

    def check_has(self, names: Iterable[bytes], root: str) -> None:
        """Looks for streams that were named.

        Raises:
            ArchiveError: one was never archived.
        """
        unknown = sorted(set(names) - self.streams.keys())
        if unknown:
            raise ArchiveError(f"the archive {root} has no stream {as_text(unknown[0])}: nothing of it was archived")

    def encode(self) -> bytes:
        """As the file holds it."""
        files = [
            {
                "path": each.path,
                "stream": as_text(each.stream),
                "first": str(each.first),
                "last": str(each.last),
                "rows": each.rows,
                "bytes": each.size_bytes,
                "digest": str(each.digest),
                "created_ms": each.created_ms,
                "source": each.source,
            }
            for each in self.files
        ]
        streams = {
            as_text(name): {"first": str(reach.first), "archived_to": str(reach.last)}
            | ({"identity": reach.identity.hex()} if reach.identity else {})
            for name, reach in sorted(self.streams.items())
        }
        settings = {"layout": self.shape.layout, "columns": self.shape.columns, "hourly": self.shape.hourly}
        whole = {
            "format_version": FORMAT,
            "writer": f"diskstream {diskstream.__version__}",
            "version": self.version,
            "operation": self.operation,
            "made_ms": self.made_ms,
            "store": self.store,
            "settings": settings,
            "streams": streams,
        }
        # A file a line: a difference between two versions can be read.
        lines = ",\n".join(json.dumps(each) for each in files)
        head, check = json.dumps(whole, indent=1)[:-2], check_of({**whole, "files": files})
        return f'{head},\n "files": [\n{lines}\n],\n "check": "{check}"\n}}\n'.encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> "Manifest":
        """From a file's bytes.

        Raises:
            NewerFormatError: a later version of diskstream wrote it.
            ArchiveError: it is damaged.
        """
        try:
            found = json.loads(data)
            if found["format_version"] > FORMAT:
                raise NewerFormatError(path, "the manifest", FORMAT, found["format_version"])
            _check_whole(found)
            given = found["settings"]
            columns = tuple((str(name), str(kind)) for name, kind in given["columns"])
            return cls(
                int(found["version"]),
                found["store"],
                Shape(given["layout"], columns, bool(given["hourly"])),
                {
                    as_bytes(name): Reach(
                        parse_id(each["first"]),
                        parse_id(each["archived_to"]),
                        bytes.fromhex(each["identity"]) if "identity" in each else None,
                    )
                    for name, each in found["streams"].items()
                },
                tuple(_file(each) for each in found["files"]),
                found["operation"],
                int(found["made_ms"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ArchiveError(f"{path}: the manifest is damaged ({error!r}): restore it from a copy") from error


def _check_whole(found: dict[str, Any]) -> None:
    if not is_whole(found):
        raise ValueError("its checksum is another one")


def _file(each: Mapping[str, Any]) -> ArchivedFile:
    return ArchivedFile(
        each["path"],
        as_bytes(each["stream"]),
        parse_id(each["first"]),
        parse_id(each["last"]),
        int(each["bytes"]),
        Digest.parse(each["digest"], int(each["rows"])),
        int(each["created_ms"]),
        each["source"],
    )


def _path(version: int) -> str:
    return f"{FOLDER}/{version:012d}.json"


def versions(place: Place) -> list[int]:
    """The versions that are there, in order."""
    found = (_NAME.fullmatch(each.path) for each in place.list(FOLDER))
    return sorted(int(each[1]) for each in found if each)


def load(place: Place, version: int) -> Manifest:
    """One version.

    Raises:
        FileNotFoundError: it is gone, or never was.
        ArchiveError, NewerFormatError, StorageError: it cannot be read, or is another version.
    """
    path = place.full(_path(version))
    made = Manifest.decode(place.read(_path(version)), path)
    if made.version != version:  # as the latest it would hide later ones, and every commit behind it would be refused
        raise ArchiveError(
            f"{path} is version {made.version} of the manifest under another name: remove it, or call it "
            f"{made.version:012d}.json if that is missing"
        )
    return made


def latest(place: Place) -> Manifest:
    """The archive as it is now; version 0 where there is none.

    Raises:
        ArchiveError, NewerFormatError, StorageError: it cannot be read.
    """
    found = versions(place)
    return load(place, found[-1]) if found else Manifest()


def there(place: Place) -> Manifest:
    """The archive as it is now. A folder `_manifest` without a version is none: it would be read as one of no entries.

    Raises:
        ArchiveError: there is none.
        NewerFormatError, StorageError: it cannot be read.
    """
    base = latest(place)
    if not base.version:
        raise ArchiveError(f"there is no archive in {place.root}: diskstream spark archive makes one")
    return base


def commit(place: Place, made: Manifest, job: str) -> None:
    """Makes a version the archive's latest.

    Raises:
        ArchiveChangedError: another job was quicker.
        StorageError: whether it became the latest is not known; what it names must be left alone.
    """
    # A number comes free again when its version was replaced for longer than the grace time: a job that took so long
    # would make it anew, below the latest, where nobody reads it.
    newer = next((each for each in reversed(versions(place)) if each >= made.version), None)
    if newer is not None:
        raise ArchiveChangedError(place.root, newer)
    if not place.create(_path(made.version), made.encode(), job):
        raise ArchiveChangedError(place.root, made.version)
