"""Commit records: how a writer that tries again is kept from adding the same entries twice."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self, TypedDict

from diskstream._native import MAX_NAME_BYTES
from diskstream.errors import ArgumentError, ArgumentTypeError, LimitError
from diskstream.ids import IDLike

__all__ = ["COMPLETE", "AddOptions", "Commit", "EntryOptions", "check_writer", "record_of"]

COMPLETE = (
    2**32 - 1
)  # the part that says that a version has no further ones: the greatest, so that it is behind them all

_MAX_VERSION = 2**64 - 1


class _AnyAddOptions(TypedDict, total=False):
    maxlen: int | None
    minid: IDLike | None
    approximate: bool
    limit: int | None
    ref: str
    durable: bool


class EntryOptions(_AnyAddOptions, total=False):
    """What `Stream.add` takes beside fields, ID and `nomkstream`."""

    producer: str | bytes | None
    message_id: str | bytes | None


class AddOptions(_AnyAddOptions, total=False):
    """What `Stream.add_many` takes beside rows and commit."""

    ids: Iterable[IDLike] | None
    nomkstream: bool


def check_writer(writer: object) -> bytes:
    """The name of a writer.

    Raises:
        ArgumentTypeError: not bytes.
        ArgumentError: empty.
        LimitError: too long.
    """
    if not isinstance(writer, bytes):
        raise ArgumentTypeError(f"the name of a writer is bytes, not {writer!r}")
    if not writer:
        raise ArgumentError("the name of a writer must not be empty")
    if len(writer) > MAX_NAME_BYTES:
        raise LimitError("the name of a writer", MAX_NAME_BYTES, len(writer))
    return writer


def _check_number(what: str, value: object, greatest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"the {what} of a commit is an int, not {value!r}")
    if not 0 <= value <= greatest:
        raise ArgumentError(f"the {what} of a commit is between 0 and {greatest}, not {value}")


@dataclass(frozen=True)
class Commit:
    """A part of a version of what a writer adds.

    A writer commits its versions in order, and the parts of each in order. A stream remembers the last part that each
    of 1024 writers committed, the one heard of longest ago going for a new one; a part that is not behind it is not
    added again.

    Attributes:
        writer: the writer's name, at most 4096 bytes.
        version: of 64 bits.
        part: of 32 bits; the greatest says that the version is complete.

    Raises:
        ArgumentTypeError, ArgumentError, LimitError: one of them is of another kind or out of range.
    """

    writer: bytes
    version: int
    part: int = 0

    def __post_init__(self) -> None:
        check_writer(self.writer)
        _check_number("version", self.version, _MAX_VERSION)
        _check_number("part", self.part, COMPLETE)

    @classmethod
    def complete(cls, writer: bytes, version: int) -> Self:
        """What `Stream.note_commit` is told once all parts of a version are there."""
        return cls(writer, version, COMPLETE)

    def after(self, parts: int) -> Self:
        """The commit that comes this many parts later in the same version."""
        return replace(self, part=self.part + parts)

    @property
    def record(self) -> tuple[bytes, int, int]:
        """Writer, version and part."""
        return self.writer, self.version, self.part


def record_of(commit: object) -> tuple[bytes, int, int]:
    """The record of what must be a commit.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not isinstance(commit, Commit):
        raise ArgumentTypeError(f"commit is a Commit, not {commit!r}")
    return commit.record
