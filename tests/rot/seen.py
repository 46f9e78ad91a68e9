"""All that there is to see in a store, and whether what is seen of a damaged one may be."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import diskstream
from diskstream import DiskstreamError, Entry, EntryID, Store
from diskstream.copying import StreamState, state_of
from diskstream.errors import ClosedError, CorruptionError, FormatError, RemoteError, StorageError

__all__ = ["Row", "SeenStream", "Witness", "look"]

_T = TypeVar("_T")
Row = tuple[EntryID, list[tuple[bytes, bytes]]]
# Errors that say that something is damaged, and so count as having told.
_TELLING = (CorruptionError, FormatError, RemoteError, StorageError)


@dataclass
class SeenStream:
    """What is seen of a stream; None where an error came instead.

    Attributes:
        entries: all, in order; of a stream that broke off those before.
        whole: whether they came to their end.
        state: groups, counters and settings.
        audit: what groups did.
        details: length, rule of retention, commits.
    """

    entries: list[Row] = field(default_factory=list)
    whole: bool = False
    state: StreamState | None = None
    audit: list[Any] | None = None
    details: Any = None


class Witness:
    """Tries things, and keeps what went wrong as it should (`told`) and as it should not (`offences`)."""

    def __init__(self, *roots: Path | str, telling: tuple[type[Exception], ...] = ()) -> None:
        self.roots = [str(root) for root in roots]
        self.telling = telling
        self.told: list[str] = []
        self.offences: list[str] = []

    def attempt(self, what: str, call: Callable[[], _T]) -> _T | None:
        """The result; None where an error of ours came that names the place. Any other is an offence."""
        try:
            return call()
        except DiskstreamError as error:
            if isinstance(error, (*_TELLING, *self.telling)):
                self.told.append(f"{what}: {type(error).__name__}: {error}")
            if isinstance(error, ClosedError) or not any(root in str(error) for root in self.roots):
                self.offences.append(f"{what}: {type(error).__name__} names no place: {error}")
        except Exception as error:  # noqa: BLE001  # whatever else comes is what this is about
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            where = "" if at is None else f" ({Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})"
            self.offences.append(f"{what}: {type(error).__name__}: {error}{where}")
        return None

    def offend(self, text: str) -> None:
        """Notes an offence."""
        self.offences.append(text)


def _rows(entries: Any, found: list[Row]) -> bool:
    for entry in entries:
        each: Entry = entry
        found.append((each.id, each.pairs))
    return True


def look(store: Store, name: bytes, witness: Witness, how: str) -> SeenStream:
    """Looks at all of a stream: forwards, backwards, groups, audit, counters."""
    stream, seen = store.stream(name), SeenStream()
    what = f"{how}: {name[:20]!r}"
    seen.whole = bool(witness.attempt(f"{what} range", lambda: _rows(stream.range(), seen.entries)))
    back: list[Row] = []
    both = witness.attempt(f"{what} revrange", lambda: _rows(stream.revrange(), back)) and seen.whole
    if both and back[::-1] != seen.entries:
        witness.offend(f"{what}: forwards and backwards differ")
    if not store.exists(name):
        return seen
    seen.state = witness.attempt(f"{what} groups", lambda: state_of(stream))
    seen.audit = witness.attempt(f"{what} audit", lambda: list(stream.audit()))
    seen.details = witness.attempt(
        f"{what} details", lambda: (len(stream), stream.retention, stream.committed(b"spark:w"), stream.last_id())
    )
    if seen.whole and seen.details is not None and seen.details[0] != len(seen.entries):
        witness.offend(f"{what}: length is {seen.details[0]}, and {len(seen.entries)} came")
    return seen


def look_at_all(store: Store, names: list[bytes], witness: Witness, how: str) -> dict[bytes, SeenStream]:
    """The same of several streams."""
    return {name: look(store, name, witness, how) for name in names}


def verified(path: Path, witness: Witness, how: str, store: Store | None = None) -> bool:
    """Whether `verify` finds nothing. It never fails."""
    verify = (lambda: store.verify(cold=True)) if store else (lambda: diskstream.verify(path, cold=True))
    report = witness.attempt(f"{how}: verify", verify)
    if report is None:
        return False
    witness.told += [f"verify: {problem.path}: {problem.what}" for problem in report.problems]
    return report.ok
