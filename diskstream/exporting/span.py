"""What of each stream is exported, fixed at the beginning: later entries are of the next export."""

from __future__ import annotations

from dataclasses import dataclass

from diskstream.columnar import import_arrow
from diskstream.errors import ChangedError, NoSuchStreamError
from diskstream.exporting.request import ExportRequest
from diskstream.ids import EntryID, check_not_reversed, parse_end, parse_start
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = ["Span", "check_same", "spans"]


@dataclass(frozen=True)
class Span:
    """A range of one stream, which is known by more than its name.

    Attributes:
        name: of the stream.
        identity: of the stream, in hexadecimal: see `Stream.identity`.
        start, end: of the range, both included; nothing where the end is below the start.
        entries: how many there were at the beginning.
    """

    name: bytes
    identity: str
    start: EntryID
    end: EntryID
    entries: int


def spans(store: Store, request: ExportRequest) -> list[Span]:
    """The spans of a request, as of now.

    Raises:
        NoSuchStreamError: one of the streams is not there.
        InvalidIDError, ArgumentError: malformed ends, or the lower one last.
        CorruptionError: a stream is damaged within the range.
        MissingPackageError: pyarrow is not installed.
    """
    import_arrow("an export")  # before anything is written
    found = []
    low, high = parse_start(request.start), parse_end(request.end)
    check_not_reversed(low, high)
    for name in request.streams:
        stream = store.stream(name)
        identity = _identity(stream)
        last = stream.last_id()
        if high > last:
            stream.count(last, high)  # says so where the log is damaged and more may have followed
        end = min(high, last)
        found.append(Span(name, identity, low, end, stream.count(low, end) if low <= end else 0))
    return found


def check_same(stream: Stream, span: Span) -> None:
    """Makes sure that the stream is the one that the span is of.

    Raises:
        NoSuchStreamError: it is gone.
        ChangedError: another one has its name.
    """
    if _identity(stream) != span.identity:
        shown = span.name.decode("utf-8", "backslashreplace")
        raise ChangedError(
            f"stream {shown}", "it was removed and made anew since the export began", "begin a new export"
        )


def _identity(stream: Stream) -> str:
    identity = stream.identity()
    if identity is None:
        raise NoSuchStreamError(stream.name, "diskstream ls lists the streams")
    return identity.hex()
