"""The audit of groups, as the native core shows it: a part of `_native.pyi` that has no room there."""

from typing import TypeAlias, final

from diskstream._native import EntryID, LogFile

# Time in ms, LSN, action, group, consumer, ID, deliveries, owner before: the fields of `AuditRecord`.
_Row: TypeAlias = tuple[int, int, str, bytes | None, bytes | None, EntryID | None, int | None, bytes | None]

@final
class AuditLog:
    """The frames of groups of one log file; read once, either as rows or as the bytes of an audit file."""

    def __new__(cls, file: LogFile, uuid: bytes, number: int) -> AuditLog: ...
    def next(self, start_ms: int, end_ms: int) -> list[_Row] | None: ...  # The next ones; None behind the last
    def pack(self, salt: int, level: int) -> bytes: ...  # The next bytes of its audit file; none where it needs none
    @property
    def number(self) -> int: ...  # The segment's number

@final
class AuditFile:
    """An audit file: header, footer and names are checked when it is opened, each block when it is read."""

    def __new__(cls, fd: int, path: str, uuid: bytes, number: int) -> AuditFile: ...
    def next(self, start_ms: int, end_ms: int) -> list[_Row] | None: ...  # The next ones; None behind the last
    @property
    def frames(self) -> int: ...  # Frames of groups in the file
    @property
    def times_ms(self) -> tuple[int, int]: ...  # Least and greatest time of a frame
    @property
    def file_bytes(self) -> int: ...  # Size of the file
