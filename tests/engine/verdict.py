"""What a damaged store may do: give right data, or say which file is damaged. Never wrong data, never silence."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import diskstream
from diskstream import CorruptionError, DiskstreamError, Entry, EntryID, Store, Stream
from tests.engine.sample import SMALL, Row, files_of, rows

LAST = EntryID(2**64 - 1, 2**64 - 1)


def begins(found: list[Row], allowed: Iterable[list[Row]]) -> bool:
    """Whether what was found is how one of several lists begins."""
    return any(found == known[: len(found)] for known in allowed)


def brief(found: list[Row]) -> str:
    """IDs and the first value of each, for a message."""
    return " ".join(f"{entry_id}={pairs[0][1]!r}" for entry_id, pairs in found)


@dataclass
class Examination:
    """Opens a damaged store as its users would, and notes whatever it should not do.

    With `forged`, its checksums are right: then it may be believed, but every error is one of ours all the same.
    """

    root: Path
    states: list[list[Row]]
    forged: bool = False
    offences: list[str] = field(default_factory=list)
    reported: bool = False

    @property
    def expected(self) -> list[Row]:
        return self.states[-1]

    def attempt(self, what: str, call: Callable[[], object]) -> object:
        """The result, or the error: one of ours that names the place, else it is an offence."""
        try:
            return call()
        except DiskstreamError as error:
            if isinstance(error, CorruptionError):
                self.reported = True
            if str(self.root) not in str(error) and not self.forged:
                self.offences.append(f"{what}: {type(error).__name__} names no place: {error}")
            return error
        except Exception as error:  # noqa: BLE001  # whatever else comes is what this is about
            self.offences.append(f"{what}: {type(error).__name__}: {error}")
            return error

    def note(self, ok: bool, offence: str) -> None:
        if not ok and not self.forged:
            self.offences.append(offence)

    # --- reading ------------------------------------------------------------------------------------------------------

    def collect(self, what: str, entries: Iterable[Entry]) -> tuple[list[Row], object]:
        """What came, and the error that ended it, if one did."""
        found: list[Row] = []

        def read() -> None:
            for entry in entries:
                found.extend(rows([entry]))

        return found, self.attempt(what, read)

    def read(self, what: str, store: Store, *allowed: list[Row]) -> list[Row]:
        """Reads forwards, backwards and by ID. Returns what came forwards."""
        stream = store.stream("x")
        there, error = self.collect(f"{what}: range", stream.range())
        self.note(begins(there, allowed), f"{what}: range gave what nobody wrote: {brief(there)}")
        back, _ = self.collect(f"{what}: revrange", stream.revrange())
        backwards = [known[::-1] for known in (*allowed, there)]
        self.note(begins(back, backwards), f"{what}: revrange gave what nobody wrote: {brief(back)}")
        if error is None:
            length = self.attempt(f"{what}: len", lambda: len(stream))
            self.note(not isinstance(length, int) or length == len(there), f"{what}: {length=} but {len(there)} came")
        for row in allowed[0][:: max(1, len(allowed[0]) // 3)]:
            self.get(what, stream, row)
        return there

    def get(self, what: str, stream: Stream, row: Row) -> None:
        found = self.attempt(f"{what}: get", lambda: stream.get(row[0]))
        if isinstance(found, Entry):
            self.note(rows([found]) == [row], f"{what}: get({row[0]}) gave what nobody wrote: {found}")

    def verify(self, what: str, store: Store) -> None:
        """`verify` itself never fails, and knows of whatever reading has come upon."""
        corrupt = self.reported
        report = self.attempt(f"{what}: verify", store.verify)
        if isinstance(report, diskstream.VerifyReport):
            self.note(not corrupt or not report.ok, f"{what}: verify finds nothing, reading did")
            self.reported = self.reported or not report.ok
        else:
            self.note(False, f"{what}: verify raised")

    def loss(self, what: str, there: list[Row]) -> None:
        self.note(there == self.expected or self.reported, f"{what}: changes are lost in silence: {brief(there)}")

    # --- the ways of opening ------------------------------------------------------------------------------------------

    def read_only(self) -> None:
        """Looks without touching anything."""
        before = files_of(self.root)
        store = self.attempt("read-only", lambda: diskstream.open(self.root, read_only=True))
        if not isinstance(store, Store):
            self.reported = True
        else:
            there = self.read("read-only", store, *self.states)
            self.verify("read-only", store)
            self.reported = self.reported or bool(store.recoveries)
            self.loss("read-only", there)
            self.attempt("read-only: close", store.close)
        self.note(files_of(self.root) == before, "read-only: the files have changed")

    def writing(self, *, thorough: bool) -> None:
        """Opens, reads, adds an entry, and opens again."""
        self.reported = False
        store = self.attempt("open", lambda: diskstream.open(self.root, **SMALL))
        if not isinstance(store, Store):
            return
        there = self.read("open", store, *self.states)
        self.verify("open", store)
        self.reported = self.reported or bool(store.recoveries)
        self.loss("open", there)
        added = self.attempt("add", lambda: store.stream("x").add({"new": "1"}))
        now = self.states
        if isinstance(added, EntryID):
            self.note(added > self.expected[-1][0], f"add: {added} is not above all that was added before")
            # Behind what a torn tail left; behind everything, where only the part that is damaged cannot be read.
            now = [[*before, (added, [(b"new", b"1")])] for before in (self.expected, there)]
            self.loss("after add", self.read("after add", store, *now)[:-1])
        self.attempt("close", store.close)
        again = self.attempt("again", lambda: diskstream.open(self.root, **SMALL))
        if isinstance(again, Store):
            self.read("again", again, *now)
            if thorough:
                self.change(again.stream("x"), again)
            self.attempt("again: close", again.close)

    def change(self, stream: Stream, store: Store) -> None:
        """Whatever changes a stream fails in words, or does what it says."""
        middle = self.expected[len(self.expected) // 2][0]
        self.attempt("delete", lambda: stream.delete(self.expected[1][0], middle))
        self.attempt("trim", lambda: stream.trim(minid=self.expected[3][0]))
        self.attempt("seal", stream.seal)
        self.attempt("compact", stream.compact)
        self.attempt("info", stream.info)
        self.attempt("columns", stream.columns)
        left, _ = self.collect("after changes", stream.range())
        known = {row[0]: row for state in self.states for row in state}
        self.note(
            all(known.get(row[0], row) == row and (row[0] in known or row[1][0][0] == b"new") for row in left),
            f"after changes: range gave what nobody wrote: {brief(left)}",
        )
        self.attempt("trim to length", lambda: stream.trim(maxlen=1))
        self.attempt("set_id", lambda: stream.set_id(LAST))
