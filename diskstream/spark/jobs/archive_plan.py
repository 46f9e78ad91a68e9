"""What a run of the job `archive` will do: the streams, from where to where, and the tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from diskstream.batches import Layout, arrow_type
from diskstream.errors import ArchiveError, ArgumentError, CorruptionError, RemoteError
from diskstream.ids import MIN_ID, EntryID, parse_end, parse_start
from diskstream.plurals import number_of
from diskstream.spark.jobs.manifest import Manifest, Reach, Shape
from diskstream.spark.jobs.parts import CORRUPT
from diskstream.spark.names import as_text
from diskstream.spark.partitions import Slice, pack, spread
from diskstream.spark.planning import slices_of
from diskstream.store import Store
from diskstream.store_files import store_uuid
from diskstream.stream import Stream

__all__ = ["ArchivePlan", "ArchiveSettings", "ArchiveTask", "plan_streams", "shape_of", "tasks_of"]

_LAYOUTS: Final = ("fields", "typed")
_FOLDERS: Final = frozenset({"stream", "date", "hour"})
_TAKEN: Final = _FOLDERS | {"id_ms", "id_seq", "ts", CORRUPT}
# A task costs 50 to 70 ms, as much as some 100,000 entries.
_LEAST_ENTRIES: Final = 250_000


@dataclass(frozen=True)
class ArchiveSettings:
    """What to archive, and how.

    Attributes:
        store: the store's directory.
        archive: the archive's, made where it is missing.
        streams: names; all that `pattern` matches where there are none.
        pattern: a glob pattern.
        start, end: the first and the last ID, as `Stream.range` takes them. A time in ms since 1970 is an ID.
        layout: ``fields`` or ``typed``; of an archive that is there: its own.
        columns: for ``typed``: fields and their types, as `Stream.scan` takes them. Other fields are not archived.
        hourly: partitions of an hour, not of a day.
        verify: read each file back before it counts.
        dry_run: only say what would be done.
        max_entries, max_bytes: of one task, and so of one file, at most, but for a piece that cannot be cut.
        grace_s: what killed jobs and older versions left is removed when it is so many seconds old.
        lease_ttl_s: seconds until the lease of a killed run may be removed.
        quiet: show no progress, even on a terminal.
    """

    store: str
    archive: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    start: str = "-"
    end: str = "+"
    layout: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    hourly: bool | None = None
    verify: bool = True
    dry_run: bool = False
    max_entries: int = 2_000_000
    max_bytes: int = 512 << 20
    grace_s: float = 3600.0
    lease_ttl_s: float = 3600.0
    quiet: bool = False


@dataclass(frozen=True)
class ArchiveTask:
    """What one task archives: slices of the lease `store`, in order, of about `max_bytes` a file at most."""

    store: str
    archive: str
    slices: tuple[Slice, ...]
    shape: Shape
    job: str
    verify: bool
    max_bytes: int


@dataclass(frozen=True)
class ArchivePlan:
    """What a run reads and how it will stand.

    Attributes:
        base: the version that it goes on from.
        shape: of the files.
        identity: the store's.
        slices: what is to be read.
        reaches: how far the streams that have something new will be archived.
        notes: what an operator should know of a stream.
    """

    base: Manifest
    shape: Shape
    identity: str
    slices: tuple[Slice, ...]
    reaches: Mapping[bytes, Reach]
    notes: Mapping[bytes, str] = field(default_factory=dict)


def shape_of(settings: ArchiveSettings, base: Manifest) -> Shape:
    """The archive's, which the settings may repeat; of a new archive, what they say.

    Raises:
        ArgumentError: they say something else, or nothing that can be done.
    """
    layout = settings.layout or base.shape.layout
    given = Shape(
        layout,
        settings.columns or (base.shape.columns if layout == base.shape.layout else ()),
        base.shape.hourly if settings.hourly is None else settings.hourly,
    )
    if given.layout not in _LAYOUTS:
        raise ArgumentError(f"an archive has layout {' or '.join(_LAYOUTS)}, not {given.layout!r}")
    if (given.layout == "typed") != bool(given.columns):
        raise ArgumentError("layout 'typed' needs columns (fields and their types), and no other layout takes any")
    names = [name for name, _ in given.columns]
    clashing = sorted((set(names) & _TAKEN) | {name for name in names if names.count(name) > 1})
    clashing += [name for name in names if name.startswith(f"{CORRUPT}.")]  # Parquet's own name of what is inside it
    if not base.version:  # one that has such a column goes on: by its manifest it is read as it is
        # Of a column that differs from a folder's in case alone Spark's Parquet reader shows the folder's value.
        clashing += [name for name in names if name.lower() in _FOLDERS]
        _check_types(given.columns)
    if clashing:
        raise ArgumentError(
            f"an archive cannot have a field as column {clashing[0]!r}: it has one of that name, in whatever case; "
            "layout 'fields' takes all fields"
        )
    if base.version and given != base.shape:
        raise ArgumentError(
            f"the archive {settings.archive} has {_words(base.shape)}, not {_words(given)}: leave that out, or "
            "archive to another folder"
        )
    return given


def _check_types(columns: Sequence[tuple[str, str]]) -> None:
    """Looks at the columns of a new archive before it is one: where its streams have no entries left, no task would,
    and its shape is kept for good.

    Raises:
        ArgumentError: one has a type that there is not, or that Parquet has not, or the name of no text.
    """
    for name, kind in columns:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise ArgumentError(
                f"an archive cannot have a field as column {name!r}, as its name is no UTF-8; layout 'fields' takes "
                "all fields"
            ) from None
        Layout.of("typed", [(encoded, kind)], "last", strict=False, exact=False, metadata=False, times=True)
        if kind.startswith("decimal("):
            found = arrow_type(kind)
            if found.scale > found.precision:
                raise ArgumentError(f"column {name!r} is {kind}: Parquet has no decimals of more places than digits")


def _words(shape: Shape) -> str:
    columns = "".join(f" {name}:{kind}" for name, kind in shape.columns)
    return f"layout {shape.layout}{columns}, partitions by {'hour' if shape.hourly else 'day'}"


def plan_streams(
    settings: ArchiveSettings, base: Manifest, shape: Shape, store: Store, names: Sequence[bytes]
) -> ArchivePlan:
    """What is there and not archived yet, by what the indexes of a store (or of its lease) say.

    Raises:
        ArchiveError: the archive is of another store, or a stream was made anew.
        ArgumentError: the range would leave a gap.
        CorruptionError: an index of the store cannot be read.
    """
    identity = store_uuid(store.path)  # a lease has a copy
    if base.store and base.store != identity:
        raise ArchiveError(
            f"the archive {settings.archive} is of another store than {settings.store}: use another folder"
        )
    low, high = parse_start(settings.start), parse_end(settings.end)
    reaches, notes = dict[bytes, Reach](), dict[bytes, str]()
    slices: list[Slice] = []
    ends = {each.stream: each.last for each in base.files}  # of a stream the last one: they are in order
    for name in names:
        stream, before = store.stream(name), base.streams.get(name)
        last = stream.written_to()
        if left_out := _left_out(stream, before.first if before else low):
            notes[name] = left_out
        low_here = low
        if before is not None and last == MIN_ID and before.identity not in (None, stream.identity()):
            # As a consumer group makes it: where the archive's ends is seen once there is an entry.
            notes[name] = "it was made anew, and has no entries yet"
            continue
        if before is not None:
            done = _done(stream, before, ends.get(name), last)
            _check(stream, done, before.identity, low, last)
            if done >= min(high, last):
                continue
            low_here = done.next() or done
            trimmed = stream.trimmed_to(done)
            if trimmed is not None and trimmed > done:
                trimmed_away = f"entries from {low_here} to {trimmed} were trimmed before they were archived"
                notes[name] = "; ".join(filter(None, (notes.get(name), trimmed_away)))
        until = min(high, last)
        if last == MIN_ID or low_here > until:
            continue
        reaches[name] = Reach(before.first if before else low_here, until, stream.identity())
        limits = settings.max_entries, settings.max_bytes
        slices.extend(slices_of(stream, low_here, until, (min(limits[0], _LEAST_ENTRIES), limits[1])))
    return ArchivePlan(base, shape, identity, tuple(slices), reaches, notes)


def _left_out(stream: Stream, first: EntryID) -> str:
    """What is said of entries before the first ID of the archive: who trims up to the last one would lose them."""
    until = first.prev()
    try:
        entries = 0 if until is None else stream.count("-", until)
    except (CorruptionError, RemoteError):  # of a segment that this run need not read
        return f"entries before {first} may not be in the archive"
    return f"{number_of(entries, 'entry')} before {first} not in the archive" if entries else ""


def _done(stream: Stream, before: Reach, kept: EntryID | None, last: EntryID) -> EntryID:
    """The ID up to which nothing is left to be archived; `kept` is the last one that the archive has a row of.

    Earlier versions took a last ID that was set ahead of all entries for that. Where it was set back, and others came
    below it, the files tell how far the archive goes.
    """
    files = kept or before.first.prev() or MIN_ID
    behind = files.next()
    if files >= before.last or behind is None:
        return before.last
    return files if last < before.last or stream.count(behind, before.last) else before.last


def _check(stream: Stream, done: EntryID, identity: bytes | None, low: EntryID, last: EntryID) -> None:
    name = stream.name
    # One that was made anew behind what is archived goes on: all of its entries are still to come.
    if identity not in (None, stream.identity()) and stream.count("-", done):
        raise ArchiveError(
            f"stream {as_text(name)} is archived up to {done}, but the store's is another one, made anew, with "
            "entries up to there that were never archived; archive it to another folder"
        )
    if last < done:
        is_same = identity is not None and identity == stream.identity()
        why = "its last ID was set back, or a power cut took the rest" if is_same else "it was deleted and made anew"
        raise ArchiveError(
            f"stream {as_text(name)} is archived up to {done}, and the store's ends at {last}: {why}; archive it to "
            "another folder"
        )
    if low > (done.next() or done):
        raise ArgumentError(
            f"stream {as_text(name)} is archived up to {done}: a start at {low} would leave a gap; leave it "
            "out, or archive to another folder"
        )


def tasks_of(settings: ArchiveSettings, plan: ArchivePlan, lease: str, job: str, workers: int) -> list[ArchiveTask]:
    """Two tasks of about one size for each core, if they are large enough: none then waits for the last one long."""
    total = sum(each.entries for each in plan.slices)
    wanted = max(-(-total // settings.max_entries), min(2 * workers, total // _LEAST_ENTRIES), 1)
    limits = settings.max_bytes, settings.max_entries
    runs = spread(plan.slices, wanted)
    if any(sum(s.size_bytes for s in run) > limits[0] or sum(s.entries for s in run) > limits[1] for run in runs):
        runs = pack(plan.slices, limits[0], min(limits[1], max(_LEAST_ENTRIES, -(-total // wanted))))
    return [
        ArchiveTask(lease, settings.archive, run, plan.shape, job, settings.verify, settings.max_bytes) for run in runs
    ]
