"""The list of parts of an export into a directory: what was asked for, then a line for each part that is durable."""

from __future__ import annotations

import fcntl
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from diskstream.checked_json import is_whole, with_check
from diskstream.errors import ArgumentError, FormatError, NewerFormatError
from diskstream.exporting.placing import failing_at, sync_directory
from diskstream.exporting.span import Span
from diskstream.ids import EntryID
from diskstream.system_calls import make_folders, open_regular

__all__ = ["NAME", "PART", "Manifest", "Part", "is_manifest"]

NAME: Final = "export.jsonl"
PART: Final = re.compile(r"\.?part-(?P<number>\d{8,})\.[a-z.]+")
_FORMAT: Final = 1
_BEGINS: Final = b'{"diskstream_export":'
# A line is some hundred bytes, but the first one, which names all streams and columns.
_MAX_BYTES: Final = 1 << 30


def is_manifest(path: Path) -> bool:
    """Whether a file is such a list, as far as its name and how it begins tell; False where it cannot be read."""
    if path.name != NAME or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_BEGINS)) == _BEGINS
    except OSError:
        return False


@dataclass(frozen=True)
class Part:
    """A file of the export.

    Attributes:
        file: its name within the directory.
        stream: whose entries it holds.
        entries: how many.
        first, last: the IDs of the first and the last of them.
        size_bytes: of the file.
    """

    file: str
    stream: bytes
    entries: int
    first: EntryID
    last: EntryID
    size_bytes: int


class Manifest:
    """The open manifest of a directory; whoever has it open is alone with the export.

    Attributes:
        given: what was asked for when the export began.
        columns: the columns that were settled on then, each name and type.
        spans: what of each stream is exported.
        parts: what is there, in order.
        complete: whether nothing is missing.
    """

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory, self._descriptor = directory, descriptor
        self.given: dict[str, Any] | None = None
        self.columns: list[tuple[bytes, str]] = []
        self.spans: list[Span] = []
        self.parts: list[Part] = []
        self.complete = False

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Opens the manifest of a directory, making both where there is nothing.

        Raises:
            ArgumentError: the directory holds something else, or another export is writing it.
            FormatError: the manifest is none.
        """
        with failing_at(directory, "write to"):
            make_folders(directory, lambda each: each.mkdir(exist_ok=True), sync_directory)
            path = directory / NAME
            others = [each.name for each in directory.iterdir() if each.name != NAME]
            if others and not path.exists():
                raise ArgumentError(f"{directory} holds {others[0]!r}, and no export: name another directory")
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT, 0o644)  # a lock needs one
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ArgumentError(f"another export is writing {directory}: wait for it") from None
                found = cls(directory, descriptor)
                found._read()
            except BaseException:
                os.close(descriptor)
                raise
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _read(self) -> None:
        path = self.directory / NAME
        if os.fstat(self._descriptor).st_size > _MAX_BYTES:
            raise FormatError(f"{path} is larger than any manifest of an export")
        content = path.read_bytes()
        # What a killed process had not finished to write counts for nothing.
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line), number)
            except NewerFormatError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise FormatError(
                    f"{path}, line {number}: not what an export writes ({error!r}): remove the directory and begin anew"
                ) from None
        if len(whole) < len(content):  # only now: of a later version's file nothing is cut off
            os.ftruncate(self._descriptor, len(whole))
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def _take(self, facts: dict[str, Any], number: int) -> None:
        if number == 1:
            version = int(facts["diskstream_export"])
            if version > _FORMAT:
                where = str(self.directory / NAME)
                raise NewerFormatError(where, "the manifest of the export", _FORMAT, version)
            if version < 1:
                raise ValueError(f"format {version}")
        # An ID with one digit changed is an ID, and entries would be missing or stand twice.
        if not is_whole(facts):
            raise ValueError("its checksum is another one")
        if self.complete:
            raise ValueError("it follows the last line")
        if number == 1:
            self.given = dict(facts["given"])
            self.columns = [(_bytes(name), str(kind)) for name, kind in facts["columns"]]
            self.spans = [
                Span(
                    _bytes(each["stream"]),
                    str(each["identity"]),
                    EntryID(each["start"]),
                    EntryID(each["end"]),
                    int(each["entries"]),
                )
                for each in facts["spans"]
            ]
        elif "complete" in facts:
            self.complete = True
        else:
            ids = EntryID(facts["first"]), EntryID(facts["last"])
            part = Part(
                str(facts["file"]), _bytes(facts["stream"]), int(facts["entries"]), *ids, int(facts["size_bytes"])
            )
            if not PART.fullmatch(part.file) or not part.file.startswith(f"part-{len(self.parts):08d}."):
                raise ValueError(f"part {len(self.parts)} has the name {part.file!r}")
            self.parts.append(part)

    def begin(self, given: dict[str, Any], columns: list[tuple[bytes, str]], spans: list[Span]) -> None:
        """Write down what is to be done."""
        self.given, self.columns, self.spans = given, columns, spans
        listed = [
            {
                "stream": _text(span.name),
                "identity": span.identity,
                "start": str(span.start),
                "end": str(span.end),
                "entries": span.entries,
            }
            for span in spans
        ]
        named = [[_text(name), kind] for name, kind in columns]
        self._append({"diskstream_export": _FORMAT, "given": given, "columns": named, "spans": listed})
        sync_directory(self.directory)

    def add(self, part: Part) -> None:
        """Note a part that is durable."""
        self.parts.append(part)
        self._append(
            {
                "file": part.file,
                "stream": _text(part.stream),
                "entries": part.entries,
                "first": str(part.first),
                "last": str(part.last),
                "size_bytes": part.size_bytes,
            }
        )

    def end(self) -> None:
        """Note that nothing is missing."""
        self.complete = True
        self._append({"complete": True, "entries": sum(part.entries for part in self.parts), "files": len(self.parts)})

    def _append(self, facts: dict[str, Any]) -> None:
        line = json.dumps(with_check(facts)).encode("ascii") + b"\n"
        with failing_at(self.directory / NAME, "write"):
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
