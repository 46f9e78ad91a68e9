"""What lies in a store, a backup, an export, an archive: descriptions, manifests, stubs, checkpoints, logs."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import diskstream
from diskstream._native import EntryID
from diskstream.archiving import marks
from diskstream.backups import manifest as backup_manifest
from diskstream.backups.making import make_backup
from diskstream.checked_json import with_check
from diskstream.checkpoints import Checkpoints
from diskstream.cold import catalogue
from diskstream.digests import Digest
from diskstream.engine import cold, directory, dissect
from diskstream.engine.records import read_records
from diskstream.engine.salvage_nodes import salvage_log, salvage_sealed
from diskstream.engine.snapshots import read_snapshot
from diskstream.engine.wire import Cursor, WireError
from diskstream.exporting.manifest import Manifest as ExportManifest
from diskstream.replaying.plans import Plan
from diskstream.spark import commit as spark_commit
from diskstream.spark.jobs.manifest import Manifest as ArchiveManifest
from tests.fuzz.edges import Edge

__all__ = ["EDGES"]

_STORE = "6f1c7e0e-6d2a-4d62-9e47-0c9a2a0f6a11"
_SHA = "ab" * 32


def _store(folder: Path) -> Path:
    """A store with sealed segments, a live log, groups, deletions; made once a folder."""
    path = folder / "store"
    if path.exists():
        return path
    with diskstream.open(path, fsync="os", segment_bytes=8 << 10, node_max_entries=16) as store:
        stream = store.stream("race")
        group = stream.group("riders", start="0")
        ids: list[EntryID] = []
        for at in range(250):
            found = stream.add({"rider": b"%d" % at, "speed": b"30.%d" % at, "on": b"x" * 80})
            assert found is not None
            ids.append(found)
            if at % 25 == 0:
                for entry in group.consumer("alice").read(count=20)[::2]:
                    entry.ack()
        stream.delete(ids[240], ids[242], ids[243])
        stream.trim(maxlen=240)
        stream.set_retention(max_entries=10_000)
    return path


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted((_store(folder) / "streams" / "race").glob(f"*{suffix}"))


def _contents(suffix: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda folder: [path.read_bytes().rstrip(b"\0") + bytes(64) for path in _files(folder, suffix)[-2:]]


def _dissected(name: str) -> Callable[[bytes, Path], object]:
    def read(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return dissect.dissect_file(path, dissect.Depth(parts=True, entries=True))

    return read


def _salvaged(data: bytes, folder: Path) -> None:
    path = folder / "00000003.log"
    path.write_bytes(data)
    for salvage in (salvage_log, salvage_sealed):
        found = salvage(path)
        if found is not None:
            for piece in found.pieces:
                len(found.block(piece, None))


def _payloads(folder: Path, kind: int) -> list[bytes]:
    from diskstream._native import LOG_HEADER_BYTES
    from diskstream.engine.frames import frame_at

    found = []
    for path in _files(folder, ".log"):
        data, at = path.read_bytes(), LOG_HEADER_BYTES
        while (frame := frame_at(data, at, None)) is not None:
            if frame.kind == kind:
                found.append(frame.payload(data))
            at = frame.end
    return found


_SNAPSHOT, _GROUPS = 1, 16


def _wire(data: bytes, _folder: Path) -> None:
    for read in (Cursor.varint, Cursor.name, Cursor.optional, Cursor.rows, lambda cursor: cursor.bitmap(1000)):
        try:
            read(Cursor(data))
        except WireError:
            continue


def _stub() -> bytes:
    ids = EntryID(1, 1), EntryID(9, 9)
    return cold.Stub(b"u" * 16, 7, 1, 50, *ids, "s3://bucket", "a/b", 900, b"h" * 32, 5).packed()


def _sha_behind(data: bytes) -> bytes:
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def _described(data: bytes, folder: Path) -> None:
    path = folder / "described"
    (path / "streams").mkdir(parents=True, exist_ok=True)
    (path / "store.json").write_bytes(data)
    directory.describe(path)


class _Place:
    url = "s3://bucket"


_RECORD = {
    "format": 1,
    "kind": "moved",
    "store": _STORE,
    "stream": _STORE,
    "name": b"race".hex(),
    "number": 7,
    "generation": 0,
    "entries": 50,
    "first": "1-1",
    "last": "9-9",
    "path": "a/b",
    "size_bytes": 900,
    "sha256": _SHA,
    "moved_ms": 5,
}


def _checked(data: bytes) -> bytes:
    """The same record with the check of what it says now; as it is where it says nothing."""
    try:
        facts = json.loads(data)
        facts.pop("check", None)
        return json.dumps(with_check(facts)).encode()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return data


def _lines_checked(data: bytes) -> bytes:
    return b"".join(_checked(line) + b"\n" for line in data.splitlines())


def _recorded(data: bytes, _folder: Path) -> None:
    catalogue._record(_Place(), "a/b", data)  # type: ignore[arg-type]  # of a place it takes the URL


def _checkpoint(folder: Path) -> list[bytes]:
    with diskstream.open(_store(folder)) as store:
        checkpoints = Checkpoints(store)
        mark = marks.Mark(b"race", "redis://h", 0, ("a" * 40,), EntryID(5, 1), Digest(3, 9, (1, 2)))
        marks.save(checkpoints, mark)
        return [checkpoints.path(b"race").read_bytes()]


def _marked(data: bytes, folder: Path) -> None:
    class _Given(Checkpoints):
        def __init__(self) -> None:
            self._folder = folder

    checkpoints = _Given()
    checkpoints.path(b"race").write_bytes(data)
    marks.load(checkpoints, b"race")


def _backup(folder: Path) -> list[bytes]:
    target = folder / "backups"
    make_backup(_store(folder), target)
    return [path.read_bytes() for path in target.rglob(backup_manifest.NAME)]


def _ended(data: bytes) -> bytes:
    """The same lines with the digest of what they are now."""
    lines = [line for line in data.splitlines(keepends=True) if not line.startswith(b'{"end"')]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    return b"".join(lines) + json.dumps({"end": digest}).encode() + b"\n"


def _backed_up(data: bytes, folder: Path) -> None:
    path = folder / "backed-up"
    path.mkdir(exist_ok=True)
    (path / backup_manifest.NAME).write_bytes(data)
    backup_manifest.read_header(path)
    backup_manifest.read_manifest(path)


_EXPORT = (
    b'{"diskstream_export": 1, "given": {"format": "csv"}, "columns": [["a", "binary"]], "spans": '
    b'[{"stream": "race", "identity": "x", "start": "1-1", "end": "9-9", "entries": 5}]}\n'
    b'{"file": "part-00000000.csv", "stream": "race", "first": "1-1", "last": "2-2", "entries": 2, "size_bytes": 3}\n'
    b'{"complete": true}\n'
)


def _exported(data: bytes, folder: Path) -> None:
    from diskstream.exporting.manifest import NAME

    path = folder / "exported"
    path.mkdir(exist_ok=True)
    (path / NAME).write_bytes(data)
    with ExportManifest.open(path):
        pass


_PLAN = (
    b'{"format": 1, "source": "/a", "stream": "race", "asked": ["-", "+"], "where": ["a=b"], "ids": "keep", '
    b'"target": "t", "start": "1-1", "end": "9-9"}'
)
_STAGED = (
    b'{"writer": "w", "version": 7, "given": false, "files": [{'
    b'"path": "staging/a/00112233445566778899aabbccddeeff.arrow", '
    b'"partition": 1, "batches": '
    b'[{"stream": "race", "rows": 5, "first": [1, 1], "last": [9, 9]}]}]}'
)
_ARCHIVE = (
    b'{"format_version": 1, "writer": "d", "version": 3, "operation": "archive", "made_ms": 5, "store": "x", '
    b'"settings": '
    b'{"layout": "fields", "columns": [["a", "string"]], "hourly": true}, "streams": {"race": {"first": "1-1", '
    b'"archived_to": "9-9"}}, "files": [{"path": "p", "stream": "race", "first": "1-1", "last": "9-9", "bytes": 5, '
    b'"digest": "00112233445566778899aabbccddeeff", "rows": 3, "created_ms": 5, "source": "seal"}]}'
)


def _staged(data: bytes, folder: Path) -> None:
    path = folder / "staged.json"
    path.write_bytes(data)
    spark_commit._read(path)


def _of(*seeds: bytes) -> Callable[[Path], Sequence[bytes]]:
    return lambda _folder: seeds


EDGES = (
    Edge("logs, dissected", _contents(".log"), _dissected("00000003.log")),
    Edge("sealed segments, dissected", _contents(".seg"), _dissected("00000003.seg")),
    Edge("audit files, dissected", _contents(".audit"), _dissected("00000003.audit")),
    Edge("copies of snapshots, dissected", lambda folder: _payloads(folder, _SNAPSHOT), _dissected("00000003.state")),
    Edge("logs, salvaged", _contents(".log"), _salvaged),
    Edge("sealed segments, salvaged", _contents(".seg"), _salvaged),
    Edge(
        "records",
        lambda folder: _payloads(folder, _GROUPS),
        lambda data, _folder: read_records(data),
        (WireError,),
    ),
    Edge(
        "snapshots",
        lambda folder: _payloads(folder, _SNAPSHOT),
        lambda data, _folder: read_snapshot(data).put(),
        (WireError,),
    ),
    Edge("varints and the like", lambda folder: _payloads(folder, _GROUPS), _wire),
    Edge(
        "stubs", lambda _folder: [_stub()], lambda data, folder: cold.unpacked(folder / "x", data), signed=_sha_behind
    ),
    Edge("descriptions of stores", lambda folder: [(_store(folder) / "store.json").read_bytes()], _described),
    Edge("records of a catalogue", _of(_checked(json.dumps(_RECORD).encode())), _recorded, signed=_checked),
    Edge("checkpoints", _checkpoint, _marked, signed=_checked),
    Edge("manifests of backups", _backup, _backed_up, signed=_ended),
    Edge("manifests of exports", _of(_EXPORT), _exported, signed=_lines_checked),
    Edge("plans of replays", _of(_PLAN), lambda data, _folder: Plan.from_json(data.decode("latin-1"), "here")),
    Edge(
        "manifests of staged rows",
        _of(_STAGED),
        _staged,
    ),
    Edge("manifests of archives", _of(_ARCHIVE), lambda data, _folder: ArchiveManifest.decode(data, "here")),
    Edge(
        "digests",
        _of(b"00112233445566778899aabbccddeeff"),
        lambda data, _folder: Digest.parse(data.decode("latin-1"), 1, 1),
        (ValueError,),
    ),
)
