"""Rows into a stream: judged, put in order, given IDs, appended a batch at a time."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TextIO

import diskstream
from diskstream.entry_size import MAX_ENTRY_BYTES, check_rows
from diskstream.errors import IDExhaustedError, IDOrderError
from diskstream.ids import parse_id
from diskstream.ingest.errors import IDS_GO_UP, InputError, InputOrderError
from diskstream.ingest.order import BackwardsError, Disorder, IDMaker
from diskstream.ingest.resuming import Resumption, RowsDigest
from diskstream.ingest.rows import BadRow, Pairs, Row
from diskstream.ingest.sorting import sorted_by_time
from diskstream.ingest.sources import Source, Timestamps, shown
from diskstream.plurals import number_of

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""A batch is one frame: of long rows it holds fewer than of short ones."""

SHOWN_BAD_ROWS = 20

# A shorter row is no entry that is too large, where the names of its columns are no longer.
_LONG_BYTES = MAX_ENTRY_BYTES // 2

# Half as many fields as an entry may have.
_MANY_FIELDS = 1 << 15


@dataclass(slots=True)
class LoadReport:
    """What became of the rows of one stream."""

    stream: bytes
    rows: int = 0
    value_bytes: int = 0
    resumed: int = 0  # rows that an earlier run had imported before it was interrupted
    skipped: int = 0
    repeated: int = 0  # rows of the same millisecond as their predecessor
    disordered: int = 0  # rows that lie before their predecessor in the file; or, clamped, that were given another time
    first_id: diskstream.EntryID | None = None
    last_id: diskstream.EntryID | None = None
    bad_rows: list[str] = field(default_factory=list)  # the first few, as `file:line: reason`
    checked: bool = False


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load; see `diskstream import --help`."""

    timestamps: Timestamps | None = None
    id_field: bytes | None = None  # holds the whole ID, and becomes no field itself
    disorder: Disorder = "sort"
    skip_bad_rows: bool = False
    rejects: TextIO | None = None
    file_field: bytes | None = None
    batch: int = 500
    sort_memory_bytes: int = 64 * 1024 * 1024
    check: bool = False
    key: str = ""  # names the import, for one that goes on with it: see `resuming`
    version: int | None = None  # which import of the same it is, where there are several streams
    again: bool = False  # begin anew, also where an earlier run was interrupted
    on_read: Callable[[int], None] | None = None
    on_written: Callable[[int], None] | None = None


@contextmanager
def keeping_rejects(rejects: TextIO) -> Iterator[TextIO]:
    """The file of rejected rows, which is closed where it cannot be written: else its end would fail once more.

    Raises:
        InputError: the system said no.
    """
    try:
        yield rejects
    except BrokenPipeError:
        raise  # whoever read them has had enough
    except OSError as error:
        with suppress(OSError):
            rejects.close()
        why = error.strerror or str(error)
        raise InputError(f"rejected rows cannot be written to {rejects.name}: {why}") from error


class Loader:
    """Loads files into one stream."""

    def __init__(self, stream: diskstream.Stream, options: LoadOptions) -> None:
        self.report = LoadReport(stream.name)
        self._stream = stream
        self._options = options
        self._ids: list[diskstream.EntryID | None] = []  # of the batch that is being filled
        self._batch: list[Pairs] = []
        self._digest = blake2b()
        self._prefix = RowsDigest()
        self._resumption = Resumption(stream, options.key, again=options.again, version=options.version)

    def load(self, sources: Iterable[Source]) -> LoadReport:
        """Append every row of the files. An InputError says how many rows were `written` before it.

        It is not over before `finish`: until then the same, run again, passes over what is there, or raises an
        InputChangedError where that is not what the files begin with.
        """
        rows = self._good_rows(sources)
        try:
            if self._options.id_field is not None:
                self._append_batches(self._with_given_ids(rows, self._options.id_field))
            elif self._options.timestamps is None:
                self._append_batches((None, pairs) for _, _, pairs in rows)
            else:
                self._append_batches(self._with_ids(rows, self._options.timestamps))
            self._resumption.end()
        except (IDExhaustedError, IDOrderError) as refused:
            error = self._without_room(is_full=isinstance(refused, IDExhaustedError))
            error.written = self.report.rows + self.report.resumed
            raise error from None
        except InputError as error:
            error.written = self.report.rows + self.report.resumed
            raise
        if self._options.check:
            self._compare()
        return self.report

    def finish(self) -> None:
        """Nothing of it can fail any more: the next import of the same is another one."""
        self._resumption.finish()

    # --- judging ------------------------------------------------------------------------------------------------------

    def _good_rows(self, sources: Iterable[Source]) -> Iterator[tuple[Source, Row, Pairs]]:
        for source in sources:
            extra = [] if self._options.file_field is None else [(self._options.file_field, os.fsencode(source.path))]
            long_names: bool | None = None  # those of a header are not in the bytes of its rows
            for row in source.rows(self._options.on_read, self._append_held):
                if isinstance(row, BadRow):
                    self._reject(source, row)
                    continue
                if long_names is None:
                    long_names = sum(len(name) for name, _ in row.pairs) > _LONG_BYTES
                if reason := self._refused(row, extra, certain=not long_names):
                    self._reject(source, BadRow(row.line, reason, row.raw))
                else:
                    yield source, row, row.pairs + extra

    def _refused(self, row: Row, extra: Pairs, *, certain: bool) -> str:
        """Why a long or wide row cannot be an entry; nothing where it can. That a short one can may be `certain`."""
        if certain and len(row.raw) <= _LONG_BYTES and len(row.pairs) <= _MANY_FIELDS:
            return ""
        id_field, pairs = self._options.id_field, row.pairs + extra
        try:
            check_rows([pairs if id_field is None else _taken_out(id_field, pairs)[1]])
        except ValueError as error:
            return str(error)
        return ""

    def _reject(self, source: Source, row: BadRow) -> None:
        if not self._options.skip_bad_rows:
            raise InputError(row.reason, file=source.name, line=row.line)
        self.report.skipped += 1
        if len(self.report.bad_rows) < SHOWN_BAD_ROWS:
            self.report.bad_rows.append(f"{source.name}:{row.line}: {row.reason}")
        if self._options.rejects is not None:
            facts = {"file": source.name, "line": row.line, "reason": row.reason}
            try:
                facts["row"] = row.raw.decode("utf-8")
            except UnicodeDecodeError:
                facts["row_base64"] = base64.b64encode(row.raw).decode()
            with keeping_rejects(self._options.rejects) as rejects:
                rejects.write(json.dumps(facts, ensure_ascii=False) + "\n")

    # --- order --------------------------------------------------------------------------------------------------------

    def _with_ids(
        self, rows: Iterator[tuple[Source, Row, Pairs]], timestamps: Timestamps
    ) -> Iterator[tuple[diskstream.EntryID, Pairs]]:
        last = self._resumption.behind
        ids = IDMaker(last, clamp=self._options.disorder == "clamp")
        timed = self._timed(rows, timestamps)
        if self._options.disorder == "sort":
            timed = sorted_by_time(timed, memory_bytes=self._options.sort_memory_bytes)
        for ms, pairs in timed:
            try:
                entry_id = ids(ms)
            except BackwardsError:
                older = f"{(last.ms - ms) / 1000:,.3f} s older"
                raise InputOrderError(
                    f"a row is {older} than the newest entry of {shown(self.report.stream)}, {last}",
                    hint="import it into a stream of its own, or take --disorder clamp to append it after that entry",
                ) from None
            self.report.repeated = ids.repeated
            if self._options.disorder == "clamp":  # not those alone that are older than the row above them in the file
                self.report.disordered = ids.clamped
            yield entry_id, pairs

    def _with_given_ids(
        self, rows: Iterator[tuple[Source, Row, Pairs]], id_field: bytes
    ) -> Iterator[tuple[diskstream.EntryID, Pairs]]:
        last, above = self._resumption.behind, f"the last one of {shown(self.report.stream)}"
        hint = "import it into a stream of its own"
        for source, row, pairs in rows:
            try:
                entry_id, rest = _taken_out(id_field, pairs)
            except ValueError as error:
                self._reject(source, BadRow(row.line, str(error), row.raw))
                continue
            if entry_id <= last:
                raise InputOrderError(
                    f"has the ID {entry_id}, which is not above {last}, {above}",
                    file=source.name,
                    line=row.line,
                    hint=hint,
                )
            last, above, hint = entry_id, "that of the row before it", IDS_GO_UP
            yield entry_id, rest

    def _timed(self, rows: Iterator[tuple[Source, Row, Pairs]], timestamps: Timestamps) -> Iterator[tuple[int, Pairs]]:
        previous = 0
        for source, row, pairs in rows:
            try:
                ms = timestamps(row.pairs)
            except ValueError as error:
                self._reject(source, BadRow(row.line, str(error), row.raw))
                continue
            if ms < previous:
                if self._options.disorder == "error":
                    raise InputOrderError(
                        f"lies {(previous - ms) / 1000:,.3f} s before the row above it",
                        file=source.name,
                        line=row.line,
                        hint="--disorder sort puts it where it belongs, --disorder clamp leaves it where it is",
                    )
                self.report.disordered += 1
            previous = ms
            yield ms, pairs

    def _without_room(self, *, is_full: bool) -> InputOrderError:
        """Why the stream takes no more IDs: those given grow, and began behind its last one."""
        name, hint = shown(self.report.stream), "import it into a stream of its own"
        if is_full:
            return InputOrderError(f"there is no ID above the last one of {name} for the rows that follow", hint=hint)
        return InputOrderError(f"somebody else has appended to {name} meanwhile, with an ID above the next", hint=hint)

    # --- appending ----------------------------------------------------------------------------------------------------

    def _append_batches(self, rows: Iterator[tuple[diskstream.EntryID | None, Pairs]]) -> None:
        size = 0
        for entry_id, pairs in rows:
            if not self._batch:
                size = 0
            self._ids.append(entry_id)
            self._batch.append(pairs)
            size += sum(len(name) + len(value) for name, value in pairs)
            is_last_held = self._resumption.rows + len(self._batch) == self._resumption.held
            is_full = len(self._batch) >= self._options.batch or size >= MAX_BATCH_BYTES
            if is_full or is_last_held:
                self._append_held()
        self._append_held()

    def _append_held(self) -> None:
        """Rows that came and are no whole batch yet: they do not wait for others, which may be hours in coming."""
        ids, batch, self._ids, self._batch = self._ids, self._batch, [], []
        self._append(ids, batch)

    def _append(self, ids: list[diskstream.EntryID | None], batch: list[Pairs]) -> None:
        if not batch:
            return
        commit = self._resumption.next(len(batch), self._prefix.add(ids, batch))
        if self._resumption.rows <= self._resumption.held:
            self.report.resumed += len(batch)
            self._note(ids, batch)
            return
        explicit = [entry_id for entry_id in ids if entry_id is not None]
        made = self._stream.add_many(batch, ids=explicit or None, commit=commit)
        if made is None:
            raise InputError(f"another import of the same into {shown(self.report.stream)} is under way")
        self.report.first_id = self.report.first_id or made[0]
        self.report.last_id = made[-1]
        self.report.rows += len(batch)
        self.report.value_bytes += sum(len(value) for pairs in batch for _, value in pairs)
        self._note(made, batch)
        if self._options.on_written is not None:
            self._options.on_written(len(batch))

    def _note(self, ids: Sequence[diskstream.EntryID | None], batch: list[Pairs]) -> None:
        """What is to be read back. Of an import that goes on the IDs of its first rows are not known any more."""
        if self._options.check:
            known = not self._resumption.held
            for entry_id, pairs in zip(ids, batch, strict=True):
                _digest_entry(self._digest, entry_id if known else None, pairs)

    def _compare(self) -> None:
        """Read back what was written, by this run and by those that it goes on with, and compare digests."""
        read = blake2b()
        count, rows = 0, self.report.rows + self.report.resumed
        first, last, known = self.report.first_id, self.report.last_id, not self._resumption.held
        if not known:
            first, last = self._resumption.behind.next(), last or self._stream.last_id()
        if first is not None and last is not None and rows:
            for entry in self._stream.range(first, last):
                _digest_entry(read, entry.id if known else None, entry.pairs)
                count += 1
        if (count, read.digest()) != (rows, self._digest.digest()):
            name = shown(self.report.stream)
            back = f"read back from {name}"
            what = number_of(count, f"entry {back} is", f"entries {back} are")
            raise InputError(
                f"the {what} not the {number_of(rows, 'row')} imported",
                hint="another process may have appended, trimmed or deleted meanwhile; otherwise run diskstream verify",
            )
        self.report.checked = True


def _taken_out(id_field: bytes, pairs: Pairs) -> tuple[diskstream.EntryID, Pairs]:
    """The ID in the first field of that name, and the other fields. Raises ValueError, saying what is wrong."""
    at = next((place for place, (name, _) in enumerate(pairs) if name == id_field), None)
    if at is None:
        raise ValueError(f"has no column {shown(id_field)} with its ID")
    try:
        entry_id = parse_id(pairs[at][1])
    except diskstream.InvalidIDError:
        raise ValueError(f"has {shown(pairs[at][1])} where its ID should be") from None
    if entry_id == diskstream.EntryID(0, 0):
        raise ValueError("has the ID 0-0, which no entry can have")
    if len(pairs) == 1:
        raise ValueError("has nothing but its ID, and an entry needs at least one field")
    return entry_id, pairs[:at] + pairs[at + 1 :]


def _digest_entry(digest: blake2b, entry_id: diskstream.EntryID | None, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    parts = [str(entry_id).encode()]
    for name, value in pairs:
        parts += [b"%d,%d;" % (len(name), len(value)), name, value]
    digest.update(b"".join(parts))
    digest.update(b"\n")
