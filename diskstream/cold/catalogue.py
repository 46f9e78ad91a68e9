"""The catalogue: at the place, one small JSON object for each segment that was moved there. It says what is where.

It is a help for people, and for making stubs anew; what counts is the stub in the stream's directory. A record is never
changed. One of another kind says since when a segment's object is no stream's any more.

::

    <store>/<stream>/NNNNNNNN.gG.<sha256 prefix>-<put>.seg                        an object
    <store>/catalogue/<stream>/NNNNNNNN.gG.<sha256 prefix>-<put>.json             its record
    <store>/catalogue/<stream>/NNNNNNNN.gG.<sha256 prefix>-<put>.released.json    when it was first seen to be nobody's
    <store>/catalogue/clock.json                                                  when a sweep began to remove

``<put>`` is of one attempt to put the object: a late part of another one never has its name.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import secrets
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from diskstream.checked_json import is_whole, with_check
from diskstream.cold_segments import Stub
from diskstream.errors import ChangedError, NewerFormatError, RemoteError
from diskstream.ids import EntryID
from diskstream.objects import Object, Place

__all__ = [
    "MAX_RECORD_BYTES",
    "Record",
    "clock_ms",
    "folder",
    "is_final",
    "is_kept",
    "keep",
    "new_path",
    "noted",
    "put_small",
    "record_path",
    "records",
    "release",
    "released_ms",
    "released_path",
    "stem",
    "streams",
]

MAX_RECORD_BYTES = 64 << 10
_FORMAT = 1
_DIGEST_CHARS = 16
# 64 bits: of a million puts of one segment no two have the same in all likelihood.
_PUT_BYTES = 8
_OF_ONE_PUT = re.compile(r".*\.[0-9a-f]{16}-[0-9a-f]{16}\.seg")
# What two records of one object have in common; the name of the stream and the time may be others.
_TOLD = ("store", "stream", "number", "generation", "entries", "path", "sha256", "size_bytes")


@dataclass(frozen=True)
class Record:
    """What the catalogue says of one object.

    Attributes:
        store: the store's uuid.
        name: what the stream was called when the segment was moved.
        stub: where the object is, and what is in it.
    """

    store: str
    name: bytes
    stub: Stub


def _segment(number: int, generation: int) -> str:
    return f"{number:08d}.g{generation}" if generation else f"{number:08d}"


def folder(store: str, stream: bytes) -> str:
    """Where the objects of a stream are, by the uuids."""
    return f"{store}/{uuid.UUID(bytes=stream)}"


def stem(segment: tuple[int, int], sha256: bytes) -> str:
    """What the names of all objects of a segment begin with that have the same bytes."""
    return f"{_segment(*segment)}.{sha256.hex()[:_DIGEST_CHARS]}"


def new_path(store: str, stream: bytes, segment: tuple[int, int], sha256: bytes) -> str:
    """Where an object is put: named by what is in it, and by the one attempt that puts it there.

    Args:
        store, stream: their uuids.
        segment: number and generation.
        sha256: of its bytes.
    """
    return f"{folder(store, stream)}/{stem(segment, sha256)}-{secrets.token_hex(_PUT_BYTES)}.seg"


def is_final(place: Place, path: str) -> bool:
    """Whether nothing can come any more over an object that has a record, so that it may be relied on once more.

    Its record says that the one attempt that has this name ended well. A name without an attempt, as an earlier version
    gave, may be that of several; and what was released may be about to be removed by a sweep that was broken off.

    Raises:
        RemoteError: the storage does not answer, or refuses.
    """
    return _OF_ONE_PUT.fullmatch(path) is not None and place.size(released_path(path)) is None


def record_path(path: str) -> str:
    """Where the record of an object is, by the path of the object."""
    store, stream, name = path.split("/")
    return f"{store}/catalogue/{stream}/{name.removesuffix('.seg')}.json"


def released_path(path: str) -> str:
    """Where it is said that nobody needs an object, by the path of the object."""
    return record_path(path).removesuffix(".json") + ".released.json"


def noted(place: Place, store: str, stream: str) -> dict[str, int]:
    """Where it is said of a stream's objects that nobody needs them, as far as the storage lists it; and since when
    that stands there, in milliseconds since 1970 by the storage's clock, 0 where it does not tell.
    """
    listed = place.objects(f"{store}/catalogue/{stream}")
    return {each.path: each.changed_ms for each in listed if each.path.endswith(".released.json")}


def release(place: Place, path: str, now_ms: int) -> None:
    """Says that nobody needs an object, from now on.

    Raises:
        RemoteError: the storage does not answer, or refuses.
    """
    facts = {"format": _FORMAT, "kind": "released", "path": path, "released_ms": now_ms}
    place.remove(released_path(path))  # one that cannot be read
    put_small(place, released_path(path), _packed(facts))


def clock_ms(place: Place, store: str, now_ms: int) -> int:
    """The storage's clock, in milliseconds since 1970, as told for an object that is put there now; 0: it does not say.

    Raises:
        RemoteError: the storage does not answer, or refuses.
    """
    path = f"{store}/catalogue/clock.json"
    place.remove(path)
    put_small(place, path, _packed({"format": _FORMAT, "kind": "clock", "now_ms": now_ms}))
    return place.changed_ms(path)


def released_ms(place: Place, path: str) -> int | None:
    """Since when nobody needs an object, in milliseconds since 1970; None where that was never said."""
    data = place.read(released_path(path), MAX_RECORD_BYTES)
    facts = None if data is None else unpacked(data, place, released_path(path))
    since = None if facts is None else facts.get("released_ms")
    return since if isinstance(since, int) else None


def _packed(facts: dict[str, Any]) -> bytes:
    return json.dumps(with_check(facts), indent=1).encode() + b"\n"


def unpacked(data: bytes, place: Place, path: str) -> dict[str, Any] | None:
    """The facts of a record; None where it is not whole.

    Raises:
        NewerFormatError: a later version wrote it.
    """
    try:
        facts: dict[str, Any] = json.loads(data)
        if "check" not in facts or not is_whole(facts):
            return None
        version = int(facts["format"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    if version > _FORMAT:
        raise NewerFormatError(f"{place.url}/{path}", "the record of an object", _FORMAT, version)
    return facts


def _facts(record: Record) -> dict[str, Any]:
    stub = record.stub
    return {
        "format": _FORMAT,
        "kind": "moved",
        "store": record.store,
        "stream": str(uuid.UUID(bytes=stub.uuid)),
        "name": record.name.hex(),
        "shown": record.name.decode("utf-8", "backslashreplace"),
        "number": stub.number,
        "generation": stub.generation,
        "entries": stub.entries,
        "first": str(stub.first),
        "last": str(stub.last),
        "path": stub.path,
        "size_bytes": stub.size_bytes,
        "sha256": stub.sha256.hex(),
        "moved_ms": stub.moved_ms,
    }


def _record(place: Place, path: str, data: bytes) -> Record | None:
    facts = unpacked(data, place, path)
    try:
        if facts is None or facts["kind"] != "moved":
            return None
        stub = Stub(
            uuid.UUID(facts["stream"]).bytes,
            int(facts["number"]),
            int(facts["generation"]),
            int(facts["entries"]),
            EntryID(facts["first"]),
            EntryID(facts["last"]),
            place.url,
            str(facts["path"]),
            int(facts["size_bytes"]),
            bytes.fromhex(facts["sha256"]),
            int(facts["moved_ms"]),
        )
        return Record(str(uuid.UUID(facts["store"])), bytes.fromhex(facts["name"]), stub)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def keep(place: Place, record: Record) -> None:
    """Writes a record, and reads it back. One that says the same is left as it is, one that is not whole is replaced.

    Raises:
        ChangedError: there is one that says something else.
        RemoteError: the storage does not answer, refuses, or has not kept what it was given.
    """
    wanted, path = _facts(record), record_path(record.stub.path)
    found = place.read(path, MAX_RECORD_BYTES)
    if found is None:
        put_small(place, path, _packed(wanted))
        return
    facts = unpacked(found, place, path)
    if facts is None:
        place.remove(path)
        put_small(place, path, _packed(wanted))
    elif not _says(facts, wanted):
        hint = "look at it: two stores with one uuid must not share a place"
        raise ChangedError(place.url, f"{path} is there, and says something else", hint)


def is_kept(place: Place, record: Record) -> bool:
    """Whether there is a record that says the same.

    Raises:
        NewerFormatError: a later version wrote it.
        RemoteError: the storage does not answer, or refuses.
    """
    path = record_path(record.stub.path)
    data = place.read(path, MAX_RECORD_BYTES)
    facts = None if data is None else unpacked(data, place, path)
    return facts is not None and _says(facts, _facts(record))


def _says(facts: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(facts.get(name) == wanted[name] for name in _TOLD)


def put_small(place: Place, path: str, data: bytes) -> None:
    """Writes a small object where there is none, and reads it back.

    Raises:
        RemoteError: the storage does not answer, refuses, or has not kept what it was given.
    """
    place.put(path, io.BytesIO(data))
    if place.read(path, max(len(data), MAX_RECORD_BYTES)) != data:
        hint = "run this again: it goes on where it stopped"
        raise RemoteError(place.url, f"{path} is not there as it was put", hint)


def streams(place: Place, store: str) -> list[bytes]:
    """The uuids of the streams that the catalogue of a store knows, in order."""
    found = set()
    for each in place.folders(f"{store}/catalogue"):
        with contextlib.suppress(ValueError):
            found.add(uuid.UUID(each).bytes)
    return sorted(found)


def records(place: Place, store: str, stream: bytes, wanted: Collection[tuple[int, int]] | None = None) -> list[Record]:
    """What the catalogue says of a stream, in order of segments. Records that are not whole are passed over.

    Args:
        place: where it is.
        store, stream: their uuids.
        wanted: numbers and generations of segments; None wants all. One request is made for each.

    Raises:
        NewerFormatError: a later version wrote one of them.
        RemoteError: the storage does not answer, or refuses.
    """
    found = []
    stems = None if wanted is None else {_segment(*each) for each in wanted}
    for each in _listed(place, store, stream):
        if stems is not None and each.path.rpartition("/")[2].rpartition(".")[0].rpartition(".")[0] not in stems:
            continue
        data = None if each.size_bytes > MAX_RECORD_BYTES else place.read(each.path, MAX_RECORD_BYTES)
        record = None if data is None else _record(place, each.path, data)
        if record is not None and (record.store, record.stub.uuid) == (store, stream):
            found.append(record)
    return sorted(found, key=lambda record: (record.stub.number, record.stub.generation, record.stub.moved_ms))


def _listed(place: Place, store: str, stream: bytes) -> list[Object]:
    listed = place.objects(f"{store}/catalogue/{uuid.UUID(bytes=stream)}")
    return [each for each in listed if each.path.endswith(".json") and not each.path.endswith(".released.json")]
