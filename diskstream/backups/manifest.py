"""The manifest of a backup: what is in it, file by file. Its layout is in docs/format/backup.md."""

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from diskstream.errors import CorruptionError, NewerFormatError
from diskstream.store_files import Files, is_of_stream
from diskstream.system_calls import reading

__all__ = [
    "FORMAT",
    "NAME",
    "Header",
    "Kept",
    "KeptStream",
    "Manifest",
    "bounded",
    "counted",
    "is_of_backup",
    "read_header",
    "read_manifest",
    "write_manifest",
]

FORMAT: Final = 1
NAME: Final = "backup.jsonl"
# A line that is written has 128 KiB at most: a path of 4096 bytes and a stream's name of as many, escaped, are 48 KiB
# at the worst, the faults 64 KiB, and one of them 24 KiB.
_MAX_FAULTS: Final = 100
_MAX_FAULTS_BYTES: Final = 64 << 10
_MAX_FAULT_CHARACTERS: Final = 2000
# The first versions wrote all faults of a stream into its line, one for each damaged node: these are read all the same.
_MAX_LINE_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Header:
    """What is said of a backup as a whole.

    Attributes:
        number: one more than that of the backup before.
        made_ms: when it was begun, in milliseconds since 1970.
        store: the UUID of the store.
        version: of diskstream, as text.
        patterns: of streams, where not all were wanted.
        streams, entries: how many are in it.
        files, size_bytes: how many files it has, and their bytes.
        new_bytes: of these, what was read for it; the rest it shares with backups before.
        damaged: how many streams are damaged in it.
        place: the directory of the store, as its absolute path: a copy that was restored elsewhere has the same UUID.
            Empty in backups of before this was noted.
    """

    number: int
    made_ms: int
    store: str
    version: str
    patterns: tuple[str, ...] = ()
    streams: int = 0
    entries: int = 0
    files: int = 0
    size_bytes: int = 0
    new_bytes: int = 0
    damaged: int = 0
    place: str = ""

    def covers(self, streams: Sequence[bytes]) -> bool:
        """Whether it is of these streams, if the store had them; where none are named, of the whole store."""
        patterns = [pattern.encode("utf-8", "surrogateescape") for pattern in self.patterns]
        if not patterns or not streams:
            return not patterns
        return all(any(fnmatch.fnmatchcase(stream, pattern) for pattern in patterns) for stream in streams)


@dataclass(frozen=True)
class Kept:
    """A file of a backup.

    Attributes:
        path: below the backup, with slashes.
        size_bytes, sha256: what it holds, in hex.
    """

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class KeptStream:
    """A stream of a backup.

    Attributes:
        path: its directory, below the backup.
        name: its name; a byte that is not UTF-8 is a lone surrogate.
        uuid: of the stream, in hex.
        entries: live ones.
        entries_added: ever added.
        first_id, last_id: the first live ID, and the last ID ever added.
        groups: consumer groups.
        faults: what is damaged; empty for a sound stream.
    """

    path: str
    name: str
    uuid: str
    entries: int = 0
    entries_added: int = 0
    first_id: str = "0-0"
    last_id: str = "0-0"
    groups: int = 0
    faults: tuple[str, ...] = ()

    @property
    def raw_name(self) -> bytes:
        """Its name as bytes. It has nothing to do with the locale, which is for the names of files."""
        return self.name.encode("utf-8", "surrogateescape")


@dataclass
class Manifest:
    """All of it."""

    header: Header
    streams: list[KeptStream] = field(default_factory=list)
    files: dict[str, Kept] = field(default_factory=dict)


_Line = TypeVar("_Line", Header, KeptStream, Kept)


def bounded(faults: Sequence[str]) -> tuple[str, ...]:
    """Faults of a stream that its line has room for, and how many more there are."""
    kept: list[str] = []
    left = _MAX_FAULTS_BYTES
    for fault in faults[:_MAX_FAULTS]:
        shown = fault if len(fault) <= _MAX_FAULT_CHARACTERS else f"{fault[:_MAX_FAULT_CHARACTERS]}..."
        left -= len(json.dumps(shown)) + len(", ")
        if left < 0:
            break
        kept.append(shown)
    if len(kept) < len(faults):
        kept.append(f"and {len(faults) - len(kept):,} more")
    return tuple(kept)


def _lines(manifest: Manifest) -> Iterator[bytes]:
    yield json.dumps({"format": FORMAT, **asdict(manifest.header)}).encode() + b"\n"
    for stream in manifest.streams:
        yield json.dumps({"stream": asdict(stream)}).encode() + b"\n"
    for file in manifest.files.values():
        yield json.dumps({"file": asdict(file)}).encode() + b"\n"


def write_manifest(folder: Path, manifest: Manifest, files: Files) -> None:
    """Writes it durably under its name.

    Raises:
        StorageError: the disk said no.
    """
    temporary = folder / f"{NAME}.tmp"
    files.unlink(temporary)
    digest = hashlib.sha256()
    with files.create(temporary) as new:
        for line in _lines(manifest):
            digest.update(line)
            new.write(line)
        new.write(json.dumps({"end": digest.hexdigest()}).encode() + b"\n")
        new.sync()
    files.rename(temporary, folder / NAME)
    files.sync_dir(folder)


def _objects(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    with reading(path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
                raise ValueError(f"a line of it has more than {_MAX_LINE_BYTES} bytes")
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError(f"{line[:40]!r} is no object")  # noqa: TRY004  # damage, as all else
            yield found, line


def _made(kind: type[_Line], given: dict[str, Any]) -> _Line:
    """What a line says. A member that is not known is a later version's: if it mattered the format would be another.

    Raises:
        ValueError, TypeError: a member that is known says what it cannot.
    """
    known = {each.name: each.type for each in fields(kind)}
    made = kind(**{name: given[name] for name in given if name in known})
    for name, of in known.items():
        value = getattr(made, name)
        texts = () if of is int else (value,) if of is str else value
        if (of is int and not (type(value) is int and value >= 0)) or not all(isinstance(each, str) for each in texts):
            raise ValueError(f"{name} is {value!r}")
        for text in texts:
            text.encode("utf-8", "surrogateescape")
    return made


def _header(path: Path, found: dict[str, Any]) -> Header:
    version = int(found.pop("format"))
    if version > FORMAT:
        raise NewerFormatError(str(path), "the manifest", FORMAT, version)
    return _made(Header, {**found, "patterns": tuple(found["patterns"])})


class _ManifestError(CorruptionError):
    listed_by = "diskstream backup verify", "diskstream backup verify"


def _damaged(path: Path, error: Exception) -> CorruptionError:
    is_missing = isinstance(error, FileNotFoundError)
    why = "no such file" if is_missing else (isinstance(error, OSError) and error.strerror) or str(error)
    found = _ManifestError(str(path), "manifest", 0, "the manifest of a backup", why)
    way = "" if is_missing else f"remove {NAME} from the copy, "
    found.hint = (
        f"the streams are there all the same: copy the directory of the backup elsewhere, {way}"
        "which is a store then, and verify that"
    )
    return found


def read_header(folder: Path) -> Header:
    """The first line of a manifest.

    Raises:
        CorruptionError: it is damaged.
        NewerFormatError: a later version wrote it.
    """
    path = folder / NAME
    try:
        for found, _ in _objects(path):
            return _header(path, found)
        raise ValueError("it is empty")  # noqa: TRY301  # one way out of a damaged file
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise _damaged(path, error) from error


def read_manifest(folder: Path) -> Manifest:
    """The whole manifest.

    Raises:
        CorruptionError: it is damaged, or not all there.
        NewerFormatError: a later version wrote it.
    """
    path = folder / NAME
    digest, end = hashlib.sha256(), ""
    manifest: Manifest | None = None
    try:
        for found, line in _objects(path):
            if end:
                raise ValueError("there is something behind its end")  # noqa: TRY301  # one way out of a damaged file
            if manifest is None:
                manifest = Manifest(_header(path, found))
            elif "stream" in found:
                given = found["stream"]
                stream = _made(KeptStream, {**given, "faults": tuple(given["faults"])})
                _check_place(stream.path)
                manifest.streams.append(stream)
            elif "file" in found:
                kept = _made(Kept, found["file"])
                _check_file(kept.path)
                if not _SHA256.fullmatch(kept.sha256):
                    raise ValueError(f"{kept.sha256!r} is no SHA-256")  # noqa: TRY301  # one way out of a damaged file
                manifest.files[kept.path] = kept
            else:
                end = str(found["end"])
                continue
            digest.update(line)
        if manifest is None or end != digest.hexdigest():
            raise ValueError("its checksum is another")  # noqa: TRY301  # one way out of a damaged file
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise _damaged(path, error) from error
    return manifest


# What a manifest says decides where files are written when it is restored, and what a store takes for its own: only
# what a backup has ever held is taken. So there is no control page, and no view, of somebody else's making.
_PLACE: Final = re.compile(r"(?P<store>(?:(?:keys|db[1-9]\d*)/)?)streams/(?P<stream>[^/\0]+)")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_OTHER: Final = re.compile(
    r"(?:(?:keys|db[1-9]\d*)/)?store\.json|staging/[^/\0]+/[A-Za-z0-9_-]+\.(packed|arrow)"
    r"|(?:commits|replays)/[0-9a-f]{64}/(?:done\.json|plan\.json|replay\.json|complete|\d+\.json)"
    r"|archives/[0-9a-f]{64}\.json"
)


def _check_place(path: object) -> None:
    """A stream's directory.

    Raises:
        ValueError: it is none.
    """
    found = _PLACE.fullmatch(path) if isinstance(path, str) else None
    if found is None or found["stream"].startswith("."):
        raise ValueError(f"{path!r} is no directory of a stream")


def _check_file(path: object) -> None:
    """A file.

    Raises:
        ValueError: a backup has no such file.
    """
    if isinstance(path, str) and _OTHER.fullmatch(path) and "/." not in path:
        return
    place, _, name = path.rpartition("/") if isinstance(path, str) else ("", "", "")
    _check_place(place)
    if not is_of_stream(name):
        raise ValueError(f"{path!r} is no file of a backup")


def is_of_backup(path: str) -> bool:
    """Whether a reader takes a file at this place, below the backup: one that lists another is no backup to it."""
    try:
        _check_file(path)
    except ValueError:
        return False
    return True


def counted(header: Header, streams: Sequence[KeptStream], files: Sequence[Kept]) -> Header:
    """The header with what it says of streams and files."""
    return replace(
        header,
        streams=len(streams),
        entries=sum(stream.entries for stream in streams),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        damaged=sum(bool(stream.faults) for stream in streams),
    )
