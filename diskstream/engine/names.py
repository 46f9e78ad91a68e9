"""Names on disk: directories of streams, files of segments.

A stream's name may be any bytes. In its directory's name, ``a-z 0-9 _ -`` stand for themselves and every other byte is
``%`` and two lower-case hex digits, so that no two names differ only in case and none is ``..`` or hidden. A name too
long for that is a prefix, ``~`` and the SHA-256 of the whole name; the file ``name`` in the directory then holds it.

::

    NNNNNNNN.log          a log file          NNNNNNNN.seg        a sealed segment
    NNNNNNNN.gG.seg       a compacted segment of generation G
    NNNNNNNN.cold         stands for a sealed segment whose bytes are in object storage; with .gG as above
    NNNNNNNN.audit        frames of groups from the log of a segment that was sealed
    NNNNNNNN.state        a copy of a log's snapshot
    *.tmp                 not finished, never read

A stream that is not whole yet has a name that begins with a zero byte and ``diskstream-unfinished``.
"""

import errno
import hashlib
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from diskstream.engine.descriptors import says_nothing
from diskstream.engine.files import reading, wrapped
from diskstream.errors import ArgumentError, ArgumentTypeError, LimitError

__all__ = [
    "MAX_NAME_BYTES",
    "UNFINISHED",
    "as_name",
    "audit_number",
    "audit_path",
    "cold_path",
    "decode_directory",
    "decode_plain",
    "encode_name",
    "is_long",
    "is_unfinished",
    "log_name",
    "log_path",
    "parse_file",
    "segment_name",
    "segment_path",
    "state_number",
    "state_path",
]

MAX_NAME_BYTES = 4096
# How the name begins of a stream that is not whole yet, so that what a crash left behind is not taken for somebody's.
UNFINISHED = b"\0diskstream-unfinished\0"
_MAX_ENCODED = 200
_HASH_HEX = 64
# Two names in hex, as a rename leaves them, and their line ends.
_MAX_NAME_FILE_BYTES = 2 * (2 * MAX_NAME_BYTES + 1)
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_SPELLED = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in range(256))
_FILE = re.compile(r"(?P<number>\d{8,})(?:\.g(?P<generation>\d+))?\.(?P<kind>log|seg|cold)")
_KINDS = frozenset(("log", "seg", "cold"))
_DIGITS = 8
_AUDIT = re.compile(r"(\d{8,})\.audit")
_STATE = re.compile(r"(\d{8,})\.state")
_SPELLED_OUT = re.compile(f"[a-z0-9_-]{{1,{_MAX_ENCODED}}}")
_ENCODED = re.compile(r"(?:[a-z0-9_-]|%[0-9a-f]{2})+")


def is_unfinished(name: bytes) -> bool:
    """Whether a stream of this name is not whole yet, or never will be."""
    return name.startswith(UNFINISHED)


def as_name(name: str | bytes) -> bytes:
    """A stream's name as bytes.

    Raises:
        ArgumentTypeError: neither str nor bytes.
        ArgumentError: empty.
        LimitError: longer than `MAX_NAME_BYTES`.
    """
    if isinstance(name, str):
        try:
            name = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ArgumentError(f"a stream's name must be text that UTF-8 can hold, or bytes: {error}") from None
    if not isinstance(name, bytes):
        raise ArgumentTypeError(f"a stream's name is str or bytes, not {type(name).__name__}")
    if not name:
        raise ArgumentError("a stream's name must not be empty")
    if len(name) > MAX_NAME_BYTES:
        raise LimitError("the name of a stream", MAX_NAME_BYTES, len(name))
    return name


def encode_name(name: bytes) -> str:
    """The directory of a stream."""
    encoded = "".join([_SPELLED[byte] for byte in name])
    if len(encoded) <= _MAX_ENCODED:
        return encoded
    prefix = re.sub(r"%[0-9a-f]?$", "", encoded[: _MAX_ENCODED - _HASH_HEX - 1])
    return f"{prefix}~{hashlib.sha256(name).hexdigest()}"


def decode_plain(encoded: str) -> bytes | None:
    """The name that a directory's name spells letter by letter, as most do; None where it may be another's, or none."""
    return encoded.encode("ascii") if _SPELLED_OUT.fullmatch(encoded) else None


def is_long(directory: str) -> bool:
    """Whether a directory's name is only a digest of the stream's."""
    return "~" in directory


def decode_directory(directory: Path, encoded: str | None = None) -> bytes | None:
    """The name of the stream in a directory, or None where it is no stream's directory.

    Args:
        directory: where it is.
        encoded: the name that it would have, where it is somewhere else now.
    """
    encoded = encoded or directory.name
    if not is_long(encoded):
        if not _ENCODED.fullmatch(encoded):
            return None
        name = unquote_to_bytes(encoded)
        return name if encode_name(name) == encoded else None
    try:
        with wrapped(directory / "name", "open"), reading(directory / "name") as file:
            candidates = file.read(_MAX_NAME_FILE_BYTES).decode("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and says_nothing(error) and error.errno != errno.EIO:
            raise
        return None
    for candidate in candidates:
        name = bytes.fromhex(candidate) if re.fullmatch(r"(?:[0-9a-f]{2})+", candidate) else b""
        if name and encode_name(name) == encoded:
            return name
    return None


def log_name(number: int) -> str:
    """The name of the log file of segment `number`."""
    return f"{number:08d}.log"


def log_path(directory: Path, number: int) -> Path:
    """The log file of segment `number`."""
    return directory / log_name(number)


def segment_name(number: int, generation: int) -> str:
    """The name of the sealed file of segment `number`."""
    return f"{number:08d}.g{generation}.seg" if generation else f"{number:08d}.seg"


def segment_path(directory: Path, number: int, generation: int) -> Path:
    """The sealed file of segment `number`."""
    return directory / segment_name(number, generation)


def cold_path(directory: Path, number: int, generation: int) -> Path:
    """The stub that stands for the sealed file of segment `number`."""
    return segment_path(directory, number, generation).with_suffix(".cold")


def audit_path(directory: Path, number: int) -> Path:
    """The file that keeps what groups did while segment `number` was the active one."""
    return directory / f"{number:08d}.audit"


def audit_number(name: str) -> int | None:
    """The segment's number of an audit file's name, or None for any other name. It is no segment's file."""
    match = _AUDIT.fullmatch(name)
    return None if match is None else int(match[1])


def state_path(directory: Path, number: int) -> Path:
    """The file that holds a copy of the snapshot of segment `number`."""
    return directory / f"{number:08d}.state"


def state_number(name: str) -> int | None:
    """The segment's number of such a copy's name, or None for any other name. It is no segment's file."""
    match = _STATE.fullmatch(name)
    return None if match is None else int(match[1])


def parse_file(name: str) -> tuple[str, int, int] | None:
    """``("log" | "seg" | "cold", number, generation)`` of a segment's file name, or None for any other."""
    stem, _, kind = name.rpartition(".")
    if kind in _KINDS and len(stem) == _DIGITS and stem.isascii() and stem.isdigit():
        return kind, int(stem), 0  # nearly all of them, and a stream may have thousands
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return match["kind"], int(match["number"]), int(match["generation"] or 0)
