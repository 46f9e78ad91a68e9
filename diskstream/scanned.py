"""Scanning: a range of a stream cut into pieces, and read as Arrow record batches in one of several layouts."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from diskstream import vitals
from diskstream._native import Block, EntryID, ScanBatch, ScanLayout
from diskstream.arguments import whole_of
from diskstream.batches import BATCH_BYTES, Layout, as_batch, most_rows
from diskstream.digests import Digest
from diskstream.engine import lease, names, positions, reader, splits, tally
from diskstream.engine.files import Files
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.moved import cut_short
from diskstream.engine.splits import Piece
from diskstream.entry_size import stored_name
from diskstream.errors import ArgumentError, ArgumentTypeError
from diskstream.ids import MIN_ID, IDLike, parse_end, parse_id, parse_start
from diskstream.vitals import Vitals

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Scanned"]

_T = TypeVar("_T")
_BYTES_AT_ONCE = 64 << 20
_PAIR = 2
_ENTRIES_AT_ONCE = 1 << 20


class Scanned:
    """What `Stream` has for readers of everything; a stream says how it is reached."""

    def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T:
        raise NotImplementedError

    def _blocks(self, start: EntryID, end: EntryID, *, reverse: bool) -> Iterator[Block]:
        raise NotImplementedError

    @property
    def name(self) -> bytes:
        """The stream's name."""
        raise NotImplementedError

    def _lease(
        self, target: Path, files: Files, *, copies: bool = True, shared: Sequence[Path] = ()
    ) -> lease.Moment | None:
        """Links this moment of the stream below `target`; nothing where there is no stream: see `link_stream`."""
        place = target / names.encode_name(self.name)

        def link(log: StreamLog) -> lease.Moment | None:
            shutil.rmtree(place, ignore_errors=True)  # of a stream that was replaced while it was linked
            files.mkdir(place)
            return lease.link_stream(log, place, files, copies=copies, shared=shared)

        moment = self._use(link, None)
        if moment is None:
            shutil.rmtree(place, ignore_errors=True)  # of one that went away while it was linked
        return moment

    def trimmed_to(self, behind: IDLike = MIN_ID, *, damaged: bool = False) -> EntryID | None:
        """The greatest ID of an entry that a trim took, as far as is known: None where nothing was trimmed.

        Deleted entries do not count, but for those of a segment of which a trim took the first ones and deletes the
        rest: then it is the last ID of that segment. Where a segment was compacted after part of it had been trimmed,
        it may be less.

        Args:
            behind: who asks only whether anything behind this ID was trimmed may be told less, or None, where nothing
                was; then the segment that a trim ended in need not be read, which may be away.
            damaged: where the node that the last trim ended in is damaged, or its segment gone from cold storage, tell
                the first ID of that.

        Raises:
            InvalidIDError: `behind` is no ID.
            CorruptionError, RemoteError: the segment that the last trim ended in cannot be read.
        """
        least = parse_id(behind)
        return self._use(lambda log: reader.trimmed_to(log, least, damaged=damaged), None)

    def written_to(self) -> EntryID:
        """The greatest ID that an entry is known to have had, gone or not; 0-0 where there was none.

        The last ID is this, or was set ahead of it (`Stream.set_id`): then what lies between may still be added, once
        it is set back. Whoever reads on from where the last read ended reads on from here.
        """
        return self._use(reader.written_to, MIN_ID)

    def durable_id(self) -> EntryID:
        """The ID up to which all that was added is known to be on disk; 0-0 where nothing is. Nothing is flushed.

        Behind a failed write or flush it says what is safe, whatever a power cut may take.
        """
        return self._use(reader.durable_id, MIN_ID)

    def identity(self) -> bytes | None:
        """Sixteen bytes that a stream keeps for life, under whatever name; None where there is no stream."""
        return self._use(lambda log: _up_to_date(log).native.uuid, None)

    def vitals(self) -> Vitals | None:
        """Counters and sizes for who looks often; None where there is no stream. Nothing is read but the log's end."""
        return self._use(vitals.take, None)

    def count(self, start: IDLike = "-", end: IDLike = "+") -> int:
        """Live entries from `start` to `end`, both included: exact, by indexes and counts, without reading entries.

        Args:
            start, end: as `range`.

        Raises:
            InvalidIDError, ArgumentError: malformed ends.
            CorruptionError: an index, or a node that an end lies in, cannot be read, or the range goes past damage.
        """
        low, high = parse_start(start), parse_end(end)
        return self._use(lambda log: tally.count(log, low, high), 0)

    def added_until(self, id: IDLike) -> int:
        """Entries ever added, less those that are live behind `id`; 0 where there is no stream.

        Who has read all up to an ID, and reads so many more up to another, finds this grown by as many; grown by more,
        some were gone before they were read.

        Raises:
            InvalidIDError: a malformed ID.
            CorruptionError: the index of a segment is damaged, or its file is missing.
        """
        wanted = parse_id(id)
        return self._use(lambda log: tally.added_until(log, wanted), 0)

    def count_from(self, start: IDLike) -> int:
        """Entries whose ID is not below `start`, by position, without reading them.

        Deleted ones count for as long as their segment holds them: until it is compacted, or nothing in it is left.

        Raises:
            InvalidIDError, ArgumentError: a malformed start.
            CorruptionError: the index of a segment is damaged, or its file is missing.
        """
        low = parse_start(start)
        return self._use(lambda log: positions.count_from(log, low), 0)

    def id_further(self, start: IDLike, count: int) -> EntryID | None:
        """The ID of the `count`-th entry from `start` on, or of the last one; None where none follows.

        Deleted entries count. It costs a search in indexes, however many entries lie between.

        Raises:
            InvalidIDError, ArgumentError: a malformed ID, or a count below one.
            CorruptionError: the index of a segment is damaged, or its file is missing.
        """
        count = whole_of("count", count)
        if count < 1:
            raise ArgumentError(f"count must be at least 1, not {count}")
        low = parse_start(start)
        return self._use(lambda log: positions.id_further(log, low, count), None)

    def digest(self, start: IDLike = "-", end: IDLike = "+") -> Digest:
        """The digest of the entries of a range: see `diskstream.digests`. Every entry is read from its file.

        Raises:
            CorruptionError: something within the range cannot be read.
        """
        total = Digest()
        for block in self._blocks(parse_start(start), parse_end(end), reverse=False):
            total += Digest.of(block.digest())
        return total

    def splits(
        self,
        start: IDLike = "-",
        end: IDLike = "+",
        *,
        max_entries: int = _ENTRIES_AT_ONCE,
        max_bytes: int = _BYTES_AT_ONCE,
        tail: bool = True,
        damaged: bool = False,
    ) -> list[Piece]:
        """Cuts a range into contiguous pieces that can be read apart, in order. Entries are not read for that.

        Args:
            start, end: as `range`.
            max_entries: of one piece, at most, but for a single node.
            max_bytes: of names and values of one piece, about.
            tail: take the active segment in; without it only what does not change any more.
            damaged: a segment whose index cannot be read is one piece, which fails when it is read.

        Raises:
            InvalidIDError, ArgumentError: malformed ends, or a piece of less than one entry or byte.
            CorruptionError: the index of a segment is damaged, or its file is missing.
        """
        max_entries = whole_of("max_entries", max_entries)
        max_bytes = whole_of("max_bytes", max_bytes)
        if max_entries < 1 or max_bytes < 1:
            raise ArgumentError(f"max_entries and max_bytes must be at least 1, not {max_entries} and {max_bytes}")
        low, high = parse_start(start), parse_end(end)

        def cut(log: StreamLog) -> list[Piece]:
            limits = {"max_entries": max_entries, "max_bytes": max_bytes}
            return list(splits.pieces(log, low, high, **limits, tail=tail, damaged=damaged))

        return self._use(cut, [])

    def scan(
        self,
        start: IDLike = "-",
        end: IDLike = "+",
        *,
        layout: str = "fields",
        columns: Mapping[str | bytes, str] | Sequence[tuple[str | bytes, str]] = (),
        duplicates: str = "last",
        strict: bool = False,
        exact: bool = False,
        metadata: bool = False,
        times: bool = True,
        batch_rows: int = 16_384,
    ) -> "Iterator[pa.RecordBatch]":
        """The live entries of a range as Arrow record batches, in order of IDs; no batch spans two segments.

        Each batch has ``id_ms`` and ``id_seq`` (uint64) and ``ts`` (timestamp in µs, UTC; null past 2^63 µs), then by
        layout:

        - ``ids``: nothing more.
        - ``fields``: ``fields``, a list of structs of ``name`` and ``value`` (binary): lossless.
        - ``map``: ``fields`` as a map; of a repeated name one value, as `duplicates` says.
        - ``raw``: ``entry`` (binary): for each field length of the name (u32), name, length of the value (u32), value.
        - ``typed``: the `columns`, parsed natively; and ``bad``, the fields that did not parse, where any did not.

        Args:
            start, end: as `range`.
            layout: see above.
            columns: for ``typed``: fields and their types: ``bool``, ``int8`` to ``int64``, ``float``, ``double``,
                ``decimal(p,s)``, ``timestamp``, ``date``, ``string``, ``binary``.
            duplicates: which value counts where an entry holds a name twice: ``first``, ``last``, or ``fail``.
            strict: raise where a value does not parse, instead of leaving it null.
            exact: raise also where a value would be rounded or cut to fit, or is past what a float can hold.
            metadata: add ``segment``, ``position`` (in it) and ``size_bytes`` (of names and values), int64 each.
            times: give ``ts``; it costs a little, and says nothing that ``id_ms`` does not.
            batch_rows: rows of a batch, about; fewer where they hold more than 16 MiB, or their columns would.

        Raises:
            ArgumentError: no such layout or type; columns for another layout than ``typed``; with ``fail``, a repeated
                name; with `strict` or `exact`, a value that does not parse: the message names the entry, the field and
                the value.
            CorruptionError: something within the range cannot be read. What came before it was right.
            ChangedError: the stream was removed, renamed or replaced on the way; so too.
            MissingPackageError: pyarrow is not installed.
        """
        wanted = [(stored_name(name), kind) for name, kind in _pairs(columns)]
        how = Layout.of(layout, wanted, duplicates, strict=strict, exact=exact, metadata=metadata, times=times)
        batch_rows = whole_of("batch_rows", batch_rows)
        if batch_rows < 1:
            raise ArgumentError("a batch has at least one row")
        return self._scan(parse_start(start), parse_end(end), how, min(batch_rows, most_rows(how.columns)))

    def _scan(self, start: EntryID, end: EntryID, how: Layout, batch_rows: int) -> "Iterator[pa.RecordBatch]":
        """Goes on behind the last batch where the stream was moved and is back, and nowhere else."""
        begun: bytes | None = None  # the identity of what was given a part of
        at = start
        while True:
            log = self._use(_up_to_date, None)
            if begun is not None and (log is None or log.native.uuid != begun):
                raise cut_short(self)
            if log is None:
                return
            if begun is None:
                at = start  # it may be another stream than the one of which nothing was to be given so far
            with suppress(StreamMoved):
                for number, made in _batches(log, at, end, how.native, batch_rows):
                    batch = as_batch(how, made, number)
                    if batch.num_rows:
                        begun = log.native.uuid
                        yield batch
                    following = made.last_id and made.last_id.next()
                    if following is None:
                        return
                    at = following
                return


def _pairs(columns: object) -> Iterable[tuple[str | bytes, str]]:
    """The columns of a typed scan, as names and types.

    Raises:
        ArgumentTypeError: they are none.
    """
    pairs = columns.items() if isinstance(columns, Mapping) else columns
    listed: list[Any] = list(pairs) if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes) else [()]
    if any(isinstance(each, str | bytes) or not isinstance(each, Sequence) or len(each) != _PAIR for each in listed):
        raise ArgumentTypeError(f"columns is a mapping of names to types, or pairs of them, not {columns!r}")
    return listed


def _up_to_date(log: StreamLog) -> StreamLog:
    """The log, unless it is not the stream's any more: that is told to whoever asked for it, who looks for another."""
    log.refresh()
    return log


def _batches(
    log: StreamLog, start: EntryID, end: EntryID, layout: ScanLayout, rows: int
) -> Iterator[tuple[int, ScanBatch]]:
    """Batches of one segment each, of about so many rows, and not of more than `BATCH_BYTES`."""
    run: list[Block] = []
    held, held_bytes, current = 0, 0, 0
    for number, found in reader.numbered_batches(log, start, end, layout, rows=rows, size_bytes=BATCH_BYTES):
        block = found if isinstance(found, Block) else None
        fits = block is not None and number == current and held + len(block) <= rows
        if run and (block is None or not fits or held_bytes + block.value_bytes > BATCH_BYTES):
            yield current, layout.batch(run)
            run, held, held_bytes = [], 0, 0
        if isinstance(found, ScanBatch):
            yield number, found
        else:
            run.append(found)
            current, held, held_bytes = number, held + len(found), held_bytes + found.value_bytes
    if run:
        yield current, layout.batch(run)
