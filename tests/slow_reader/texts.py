"""What is kept as JSON, and as entries of `keys`: docs/format/README.md, backup.md, export.md, keys.md."""

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from tests.slow_reader.stream import SlowStream
from tests.slow_reader.wire import FormatError

__all__ = ["canonical", "checked_object", "read_backup", "read_dump", "read_export", "read_keys"]

Facts = dict[str, Any]
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def canonical(value: object) -> str:
    """A value as it is written for its check."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(map(_character, value))}"'
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    assert isinstance(value, dict)
    return f"{{{','.join(f'{canonical(name)}:{canonical(value[name])}' for name in sorted(value))}}}"


def checked_object(path: Path, data: bytes) -> Facts:
    """An object of a file, without its check."""
    found: Facts = json.loads(data.decode("ascii"))
    check = found.pop("check", None)
    whole = hashlib.sha256(canonical(found).encode("ascii")).hexdigest()
    if check not in (None, whole):
        raise FormatError(path, 0, whole, check)
    return found


def read_backup(path: Path) -> tuple[Facts, list[Facts], list[Facts]]:
    """Of a backup: the header of its manifest, its streams and its files, which are there as it says."""
    manifest = path / "backup.jsonl"
    *lines, last = manifest.read_bytes().splitlines(keepends=True)
    whole = hashlib.sha256(b"".join(lines)).hexdigest()
    if json.loads(last) != {"end": whole}:
        raise FormatError(manifest, 0, whole, last)
    header, *rest = map(json.loads, lines)
    files = [line["file"] for line in rest if "file" in line]
    for file in files:
        data = (path / file["path"]).read_bytes()
        if (len(data), hashlib.sha256(data).hexdigest()) != (file["size_bytes"], file["sha256"]):
            raise FormatError(path / file["path"], 0, file, len(data))
    return header, [line["stream"] for line in rest if "stream" in line], files


def read_export(directory: Path) -> tuple[Facts, list[Facts], Facts | None]:
    """Of an export: what was asked for, its parts, and its last line where it is complete."""
    manifest = directory / "export.jsonl"
    lines = manifest.read_bytes().split(b"\n")[:-1]
    request, *rest = [checked_object(manifest, line) for line in lines]
    if request["diskstream_export"] != 1:
        raise FormatError(manifest, 0, 1, request["diskstream_export"])
    done = rest.pop() if rest and "complete" in rest[-1] else None
    return request, rest, done


def read_keys(stream: SlowStream) -> tuple[dict[tuple[int, bytes], Facts], list[int]]:
    """What is known of keys, by place and name, and the place of each database."""
    known: dict[tuple[int, bytes], Facts] = {}
    places: list[int] = []
    for _, pairs in stream.entries():
        (change, what), *rest = pairs
        if change == b"places":
            places = [int(number) for number in what.split(b",")]
        elif change == b"clear":
            known = {key: facts for key, facts in known.items() if key[0] != int(what)}
        elif change in (b"put", b"gone"):
            assert rest[0][0] == b"place"
            key = int(rest[0][1]), what
            known.pop(key, None)
            if change == b"put":
                assert [name for name, _ in rest[1:4]] == [b"kind", b"expires", b"stream"]
                kind, expires, uuid = (value for _, value in rest[1:4])
                values = [value for name, value in rest[4:] if name == b"value"]
                known[key] = {
                    "kind": kind.decode("ascii"),
                    "expires": int(expires) if expires else None,
                    "stream": bytes.fromhex(uuid.decode("ascii")),
                    "values": values,
                }
        else:
            raise FormatError(stream.directory, 0, "a change", change)
    return known, places


def read_dump(data: bytes) -> Facts:
    """What DUMP gave."""
    if data[:5] != b"DSKS\x01" or zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        raise FormatError(Path("dump"), 0, "DSKS 1", data[:5])
    found: Facts = json.loads(zlib.decompress(data[5:-4]).decode("utf-8"))
    return found
