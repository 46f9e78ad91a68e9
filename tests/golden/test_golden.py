"""What an older version has written is read by this one, all of it and unchanged; and what a newer one has is refused.

A version's files are never written again: see `generate`.
"""

import hashlib
import json
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import NewerFormatError
from diskstream._native import FORMAT_VERSION
from diskstream.archiving.marks import load
from diskstream.backups import find_backup, make_backup, restore
from diskstream.checked_json import with_check
from diskstream.checkpoints import Checkpoints
from diskstream.cold import bring_back
from diskstream.cold.listing import catalogued
from diskstream.commands.keyspace import Keyspace
from diskstream.engine.layouts import FOOTER, FRONTIER_SLOT, SLOT_OFFSETS
from diskstream.exporting import ExportRequest, export_directory
from tests.commands.world import Ours
from tests.engine.sample import files_of
from tests.golden.described import PLACE, described, streams_of
from tests.golden.generate import PAGED, PAGED_ENTRIES, paged_row
from tests.rot.world import OPTIONS
from tests.slow_reader.wire import crc32c

HERE = Path(__file__).resolve().parent
VERSIONS = sorted(path.name for path in HERE.glob("v*") if path.is_dir())


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest) -> Path:
    """The directory of a version."""
    return HERE / str(request.param)


@pytest.fixture
def place(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what that version has written; whoever reads it stands in it."""
    with tarfile.open(kept / "place.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected_of(kept: Path) -> Any:
    return json.loads((kept / "expected.json").read_text(encoding="utf-8"))


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def told_then(found: Any, expected: Any) -> Any:
    """Of what is found, that of which the older version knew: a rule may say more today."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {name: told_then(found[name], expected[name]) for name in found.keys() & expected.keys()}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [told_then(*pair) for pair in zip(found, expected, strict=True)]
    return found


def test_there_is_a_store_of_each_version_of_the_format() -> None:
    assert [f"v{number}" for number in range(1, FORMAT_VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("read_only", [True, False])
def test_all_is_read_as_it_was_written(kept: Path, place: Path, read_only: bool) -> None:
    before = files_of(place)
    found, expected = as_json(described(place, read_only=read_only)), expected_of(kept)
    assert found["streams"].keys() == expected["streams"].keys()
    for part in expected:
        assert told_then(found[part], expected[part]) == expected[part], part
    if read_only:
        assert files_of(place) == before


def test_an_old_store_goes_on(kept: Path, place: Path) -> None:
    expected = expected_of(kept)["streams"]
    with diskstream.open(place / "store", **OPTIONS) as store:
        for stream in store:
            expected[stream.name.decode("latin-1")]["entries"].append([str(stream.add({"new": "1"})), [["new", "1"]]])
        riders = store.stream("x").group("riders", create=False)
        assert riders.consumer("ann").read(count=1)
        store.seal()
        store.compact()
        assert bring_back(store.stream("cold")).segments
    with diskstream.open(place / "store", **OPTIONS) as store:
        found = as_json(streams_of(store))
        assert {name: each["entries"] for name, each in found.items()} == {
            name: each["entries"] for name, each in expected.items()
        }
        assert len(found["x"]["state"]["groups"]) == len(expected["x"]["state"]["groups"])
        assert store.verify().ok
    with Keyspace(place / "store", **OPTIONS) as keyspace:
        Ours(keyspace).run("SET another held")
    with Keyspace(place / "store", **OPTIONS) as keyspace:
        assert Ours(keyspace).run("GET another") == b"held"
        assert Ours(keyspace).run("GET word") == b"held"
    made = make_backup(place / "store", place / "backups")
    assert made.header.number == 3


def test_an_old_backup_is_restored(kept: Path, place: Path) -> None:
    restore(find_backup(place / "backups"), place / "restored")
    with diskstream.open(place / "restored", create=False, **OPTIONS) as store:
        found, expected = as_json(streams_of(store)), expected_of(kept)["streams"]
        assert found.keys() == expected.keys()
        assert told_then(found, expected) == expected


def test_a_large_segment_with_page_rows_is_read_and_goes_on(tmp_path: Path) -> None:
    with tarfile.open(PAGED) as packed:
        packed.extractall(tmp_path, filter="data")
    (segment,) = (tmp_path / "store" / "streams").glob("*/*.seg")
    data = segment.read_bytes()
    footer = FOOTER.sound(data, len(data) - FOOTER.size)
    assert footer is not None
    assert (footer["nodes"], footer["page_rows"]) == (PAGED_ENTRIES // 2, 128)
    left = [number for number in range(1, PAGED_ENTRIES + 1) if number not in (3, 520)]
    before = files_of(tmp_path)
    with diskstream.open(tmp_path / "store", read_only=True, create=False) as store:
        stream = store.stream("paged")
        assert [(str(entry.id), entry.pairs) for entry in stream.range()] == [
            (f"{number}-1", [(name.encode(), value.encode()) for name, value in paged_row(number).items()])
            for number in left
        ]
        for number in (1, 256, 257, 258, 512, 513, PAGED_ENTRIES):  # about where pages begin and end
            found = stream.get(f"{number}-1")
            assert found is not None
            assert found["n"] == str(number).encode()
        assert stream.added_until("600-0") == 599
        assert stream.count("100-0", "600-0") == 499
        assert store.verify().ok
    assert files_of(tmp_path) == before
    with diskstream.open(tmp_path / "store", create=False) as store:
        stream = store.stream("paged")
        assert stream.trim(minid="400-0") == 398
        stream.add({"n": "new"}, "1000-1")
        store.seal()
        store.compact()
        assert len(stream) == PAGED_ENTRIES - 399 - 1 + 1
        assert store.verify().ok


# --- what a newer version has written ---------------------------------------------------------------------------------

Look = Callable[[Path], object]


def _read_all(place: Path) -> object:
    with diskstream.open(place / "store", create=False, **OPTIONS) as store:
        return streams_of(store)


def _add(name: str) -> Look:
    def add(place: Path) -> object:
        with diskstream.open(place / "store", create=False, **OPTIONS) as store:
            return store.stream(name).add({"n": "1"})

    return add


def _export(place: Path) -> object:
    with diskstream.open(place / "store", read_only=True, create=False) as store:
        return export_directory(store, ExportRequest([b"x", b"spare"], "jsonl"), place / "export", rows_per_file=9)


def _checkpoint(place: Path) -> object:
    with diskstream.open(place / "store", read_only=True, create=False) as store:
        return load(Checkpoints(store), b"spare")


def _catalogue(place: Path) -> object:
    with diskstream.open(place / "store", create=False, **OPTIONS) as store:
        return list(catalogued(store, store, PLACE, whole=True))


def _server(place: Path) -> object:
    with Keyspace(place / "store", **OPTIONS) as keyspace:
        return Ours(keyspace).run("GET word")


def _database(place: Path) -> object:
    with Keyspace(place / "store", **OPTIONS) as keyspace:
        return keyspace.store(1).streams()


def _restore(place: Path) -> object:
    (newest,) = place.glob("backups/*-00000002")
    return restore(find_backup(newest), place / "restored")


def _binary(*places: tuple[int, int, int]) -> Callable[[bytes], bytes]:
    """Raises version fields and makes their checksums right: each is where the part begins, and its checksum; from the
    end where negative.
    """

    def newer(data: bytes) -> bytes:
        changed = bytearray(data)
        for begin, version, checksum in places:
            start = begin % len(data)
            struct.pack_into("<I", changed, start + version, FORMAT_VERSION + 1)
            struct.pack_into("<I", changed, start + checksum, crc32c(bytes(changed[start : start + checksum])))
        return bytes(changed)

    return newer


def _stub(data: bytes) -> bytes:
    changed = bytearray(data[:-32])
    struct.pack_into("<I", changed, 8, FORMAT_VERSION + 1)
    return bytes(changed) + hashlib.sha256(changed).digest()


def _json(name: str) -> Callable[[bytes], bytes]:
    def newer(data: bytes) -> bytes:
        first, *rest = data.splitlines(keepends=True) if data.count(b"\n{") else [data]
        facts = json.loads(first)
        checked = "check" in facts
        facts.pop("check", None)
        facts[name] += 1
        first = json.dumps(with_check(facts) if checked else facts).encode() + b"\n"
        if rest and b'"end"' in rest[-1]:
            rest[-1] = json.dumps({"end": hashlib.sha256(b"".join([first, *rest[:-1]])).hexdigest()}).encode() + b"\n"
        return b"".join([first, *rest])

    return newer


_HEADER, _AUDIT_FOOTER, _FOOTER = (0, 8, 60), (-128, 8, 124), (-192, 8, 188)
NEWER: dict[str, tuple[str, Callable[[bytes], bytes], Look]] = {
    "store": ("store/store.json", _json("format_version"), _read_all),
    "store of a database": ("store/db1/store.json", _json("format_version"), _database),
    "store of keys": ("store/keys/store.json", _json("format_version"), _server),
    "log": ("store/streams/x/00000005.log", _binary(_HEADER), _read_all),
    "log, added to": ("store/streams/ruled/00000001.log", _binary(_HEADER), _add("ruled")),
    "log of keys": ("store/keys/streams/keys/00000001.log", _binary(_HEADER), _server),
    "rolled log": ("store/streams/x/00000004.log", _binary(_HEADER), _read_all),
    "sealed segment": ("store/streams/x/00000003.seg", _binary(_HEADER, _FOOTER), _read_all),
    "compacted segment": ("store/streams/x/00000001.g1.seg", _binary(_HEADER, _FOOTER), _read_all),
    "audit": ("store/streams/x/00000002.audit", _binary(_HEADER, _AUDIT_FOOTER), _read_all),
    "stub": ("store/streams/cold/00000002.cold", _stub, _read_all),
    "checkpoint": ("store/archives/*.json", _json("format"), _checkpoint),
    "backup": ("backups/*-00000002/backup.jsonl", _json("format"), _restore),
    "directory of backups": ("backups/backups.json", _json("format"), lambda place: find_backup(place / "backups")),
    "export": ("export/export.jsonl", _json("diskstream_export"), _export),
    "record of cold storage": ("place/*/catalogue/*/00000001.*.json", _json("format"), _catalogue),
}


def _stored(name: str, content: bytes) -> bytes:
    """A file without the reservation of IDs, which moves at the first opening since the machine was started."""
    if not name.endswith(".log"):
        return content
    changed = bytearray(content)
    for slot in SLOT_OFFSETS:
        changed[slot : slot + FRONTIER_SLOT.size] = bytes(FRONTIER_SLOT.size)
    return bytes(changed)


@pytest.mark.parametrize("kind", NEWER)
def test_what_a_newer_version_has_written_is_refused_and_left_alone(place: Path, kind: str) -> None:
    pattern, newer, look = NEWER[kind]
    (path,) = place.glob(pattern)
    sound = path.read_bytes()
    path.write_bytes(newer(sound))
    before, refused_before = files_of(place), path.read_bytes()
    with pytest.raises(NewerFormatError) as refused:
        look(place)
    assert path.read_bytes() == refused_before
    assert path.name in str(refused.value) or str(path.parent) in str(refused.value)
    assert "upgrade" in str(refused.value)
    assert f"reads up to {FORMAT_VERSION}" in str(refused.value)
    after = files_of(place)
    left_alone = {name for name in before if not name.endswith(("/ctl", "/lock", "/users", "/epoch", ".mdb"))}
    assert {name for name in left_alone if _stored(name, after.get(name, b"")) != _stored(name, before[name])} == set()
    path.write_bytes(sound)
    look(place)


def test_a_store_with_a_feature_that_is_not_known_is_refused(place: Path) -> None:
    path = place / "store" / "store.json"
    facts = json.loads(path.read_text())
    facts["features"]["incompatible"] = ["folded-nodes"]
    path.write_text(json.dumps(facts))
    with pytest.raises(NewerFormatError, match=r"folded-nodes.*upgrade"):
        _read_all(place)


def test_a_test_of_newer_files_can_fail(place: Path) -> None:
    """The same look at a file that was not changed refuses nothing."""
    for _, _, look in NEWER.values():
        look(place)
        shutil.rmtree(place / "restored", ignore_errors=True)
