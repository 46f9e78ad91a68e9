"""A store: store.json, and the directories of its streams by name. docs/format/store.md, directory.md."""

import hashlib
import json
import re
import uuid
from pathlib import Path

from tests.slow_reader import layouts
from tests.slow_reader.stream import SlowStream
from tests.slow_reader.wire import FormatError, NewerError

__all__ = ["SlowStore", "directory_name", "stream_name"]

_MAX_DIRECTORY_NAME = 200
_PREFIX = 135


def directory_name(name: bytes) -> str:
    """The directory of the stream of that name."""
    if not 0 < len(name) <= layouts.MAX_NAME_BYTES:
        raise ValueError(f"a name of 1 to {layouts.MAX_NAME_BYTES} bytes, not {len(name)}")
    encoded = "".join(chr(byte) if re.match(rb"[a-z0-9_-]", bytes([byte])) else f"%{byte:02x}" for byte in name)
    if len(encoded) <= _MAX_DIRECTORY_NAME:
        return encoded
    return re.sub("%.?$", "", encoded[:_PREFIX]) + "~" + hashlib.sha256(name).hexdigest()


def stream_name(directory: Path) -> bytes | None:
    """The name of the stream in a directory; None where it is not the directory of a stream."""
    if "~" in directory.name:
        lines = (directory / "name").read_text("ascii").split()
        candidates = [bytes.fromhex(line) for line in lines]
    else:
        pattern = rb"%([0-9a-f]{2})"
        candidates = [re.sub(pattern, lambda code: bytes.fromhex(code[1].decode()), directory.name.encode())]
    return next((name for name in candidates if name and directory_name(name) == directory.name), None)


class SlowStore:
    """A store that nobody changes meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        description = path / "store.json"
        text = description.read_text("utf-8")
        if len(text) > layouts.MAX_STORE_JSON_BYTES:
            raise FormatError(description, 0, f"at most {layouts.MAX_STORE_JSON_BYTES} bytes", len(text))
        data = json.loads(text)
        if data["format_version"] > layouts.FORMAT_VERSION or data["features"]["incompatible"]:
            raise NewerError(description, 0, f"format version {layouts.FORMAT_VERSION}", data)
        self.uuid = uuid.UUID(data["uuid"])

    def streams(self) -> dict[bytes, Path]:
        """The directory of each stream, by its name."""
        found = {stream_name(path): path for path in (self.path / "streams").iterdir() if path.is_dir()}
        return {name: path for name, path in found.items() if name is not None}

    def stream(self, name: bytes) -> SlowStream:
        if name not in self.streams():
            raise FormatError(self.path, 0, directory_name(name), "no such directory")
        return SlowStream(self.streams()[name])
