"""The errors of reading input files.

DiskstreamError
 └─ InputError            a file that cannot be read as what it is said to be; names the file, the line and the reason
     ├─ InputOrderError    timestamps that go backwards where the policy forbids it
     ├─ InputChangedError  files that are not as they were when an import of them was interrupted
     └─ SortingError       no fault of the file: there is no room to sort it
"""

from __future__ import annotations

from diskstream.errors import DiskstreamError

IDS_GO_UP = "the IDs of rows have to go up; where this is an export of several streams, export each by itself"
"""A hint for whoever has rows whose IDs go back."""


class InputError(DiskstreamError):
    """Input that cannot be imported. `written` rows were imported before it."""

    def __init__(
        self, reason: str, *, file: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        self.hint = hint
        self.written = 0
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + reason)


class InputOrderError(InputError):
    """A timestamp lies before the one that it has to follow."""


class InputChangedError(InputError):
    """What an import that was interrupted has added is not what the files begin with now."""


class SortingError(InputError):
    """The temporary file that rows are sorted in cannot be made, written or read."""
