"""The job `replay`: a range of a store, or of an archive, into streams of another store, each entry once.

The plan is made once and kept in the target, below ``replays/``, until the replay is complete; it is carried out in
rounds, each of which stages in tasks and commits once (see `diskstream.spark.commit`). Started again, it goes on with
the round that was not complete; once complete, it does nothing any more.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import diskstream
from diskstream import leases
from diskstream.checked_json import checked, with_check
from diskstream.errors import ArgumentError, ChangedError, StorageError
from diskstream.ids import EntryID, parse_end, parse_start
from diskstream.options import streams_within_descriptors
from diskstream.spark.commit import Manifest, commit, last_done
from diskstream.spark.jobs.landing import landing
from diskstream.spark.jobs.manifest import ArchivedFile, Shape, latest, there
from diskstream.spark.jobs.outcome import Guarded, split
from diskstream.spark.jobs.part_reading import checked_part, rows_within
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.replaced_sources import REPLAY_THE_REST, FilesNow, as_they_are, check_archive, check_streams
from diskstream.spark.jobs.replay_settings import ReplaySettings, ReplaySummary, Round, Work
from diskstream.spark.jobs.replay_targets import check_targets
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.kept_stores import STORES
from diskstream.spark.losses import WITHOUT_LEASE, whole
from diskstream.spark.names import as_bytes, as_text
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import Slice, pack
from diskstream.spark.planning import chosen_streams, is_chosen, open_for_planning, slices_of
from diskstream.spark.rows import Target
from diskstream.spark.staging import StagedFile, discard, make_folders, stage
from diskstream.store import Store
from diskstream.stream import Stream
from diskstream.system_calls import is_folder, is_there, lock_now, read_small, wrapped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["ReplaySettings", "ReplaySummary", "Round", "Work", "replay_part", "run"]

_BATCH_ROWS: Final = 8_192
_SHAPE: Final = Shape("fields")  # of which entries can be made again
# A lease of a replay that was killed waits so long for it to be started again.
_LEASE_TTL_S: Final = 7 * 24 * 3600.0
_ADVICE: Final = f"{REPLAY_THE_REST}; {WITHOUT_LEASE}"
_PLAN, _COMPLETE = "plan.json", "complete"
_MAX_PLAN_BYTES: Final = 256 << 20


def replay_part(given: Round) -> StagedFile:
    """Stages what one task is to: reads it, and writes it beside the target.

    Raises:
        CorruptionError, ArchiveError: the source cannot be read.
        StorageError: the disk said no.
    """
    columns = ("id_ms", "id_seq", "fields") if given.given else ("fields",)
    target = Target("", columns, given.given)
    batches = _of_archive(given.work, given.files) if given.work.archive else _of_store(given.work)
    return stage(Path(given.target), (given.job, given.number), batches, target, _BATCH_ROWS)


def _named(batch: "pa.RecordBatch", stream: str) -> "pa.RecordBatch":
    import pyarrow as pa

    names = ["id_ms", "id_seq", "fields"]
    arrays = [batch[name] for name in names]
    return pa.RecordBatch.from_arrays([*arrays, pa.repeat(pa.scalar(stream), batch.num_rows)], names=[*names, "stream"])


def _of_store(work: Work) -> "Iterator[pa.RecordBatch]":
    with STORES.reading(work.path) as store:
        identities = work.identities or [""] * len(work.parts)
        for (stream, source, first, last), known in zip(work.parts, identities, strict=True):
            within, identity = (EntryID(first), EntryID(last)), bytes.fromhex(known) or None
            read = partial(_scanned, within=within)
            for batch in whole(store, as_bytes(source), within, read, identity=identity, advice=_ADVICE):
                yield _named(batch, stream)


def _scanned(stream: Stream, within: tuple[EntryID, EntryID]) -> "Iterator[pa.RecordBatch]":
    return stream.scan(*within, layout="fields", batch_rows=_BATCH_ROWS)


def _of_archive(work: Work, files: Sequence[ArchivedFile]) -> "Iterator[pa.RecordBatch]":
    place = Place(work.path)
    for (stream, _, first, last), file in zip(work.parts, files, strict=True):
        for batch in checked_part(place, file, _SHAPE):
            kept = rows_within(batch, EntryID(first), EntryID(last))
            if kept.num_rows:
                yield _named(kept, stream)


# --- the plan ---------------------------------------------------------------------------------------------------------


def _target_name(settings: ReplaySettings, source: str, count: int) -> str:
    if not settings.to:
        return source
    return settings.to if count == 1 else settings.to + source


def _plan_store(settings: ReplaySettings) -> list[Work]:
    options = ReadOptions(path=settings.source, streams=settings.streams, stream_pattern=settings.pattern)
    with open_for_planning(settings.source) as store:
        names = chosen_streams(store, options)
        leased = not (store.read_only or settings.dry_run)
        path = str(store.lease(names, ttl_s=_LEASE_TTL_S)) if leased else str(store.path)
    slices: list[Slice] = []
    try:
        low, high = parse_start(settings.start), parse_end(settings.end)
        with diskstream.open(path, read_only=True) as store:
            for name in names:
                slices.extend(slices_of(store.stream(name), low, high, (settings.max_entries, 1 << 30)))
    except BaseException:
        if leased:
            leases.release(Path(path))
        raise
    if leased and not slices:
        leases.release(Path(path))  # nobody will read it, and no plan knows of it
    made = []
    for run_of in pack(slices, 1 << 30, settings.max_entries):
        parts = []
        for each in run_of:
            source = as_text(each.stream)
            first, last = each.range
            parts.append((_target_name(settings, source, len(names)), source, str(first), str(last)))
        identities = tuple((each.identity or b"").hex() for each in run_of)
        made.append(Work(path, False, tuple(parts), sum(each.entries for each in run_of), identities))
    return made


def _plan_archive(settings: ReplaySettings) -> list[Work]:
    place = Place(settings.source)
    manifest = there(place)
    if manifest.shape.layout != "fields":
        raise ArgumentError(
            f"the archive {settings.source} holds typed columns, from which entries cannot be made again: replay an "
            "archive of layout 'fields'"
        )
    manifest.check_has(settings.streams, place.root)
    options = ReadOptions(streams=settings.streams, stream_pattern=settings.pattern)
    low, high = parse_start(settings.start), parse_end(settings.end)
    # Those without files in the range count too: where entries go must not hang on what is there today.
    names = {name for name in manifest.streams if is_chosen(name, options)}
    chosen = [each for each in manifest.files if each.stream in names and each.last >= low and each.first <= high]
    made: list[Work] = []
    parts: list[tuple[str, str, str, str]] = []
    entries = 0
    for each in sorted(chosen, key=lambda each: (each.stream, each.first)):
        if parts and entries + each.rows > settings.max_entries:
            made.append(Work(place.root, True, tuple(parts), entries, (manifest.store,)))
            parts, entries = [], 0
        target = _target_name(settings, as_text(each.stream), len(names))
        parts.append((target, each.path, str(low), str(high)))
        entries += each.rows
    if parts:
        made.append(Work(place.root, True, tuple(parts), entries, (manifest.store,)))
    return made


def _planned(settings: ReplaySettings) -> list[Work]:
    if is_there(Path(settings.source) / "store.json"):
        return _plan_store(settings)
    if is_folder(Path(settings.source) / "_manifest"):
        return _plan_archive(settings)
    raise ArgumentError(
        f"{settings.source} is neither a store nor an archive: there is no store.json, and no _manifest"
    )


def _kept_plan(folder: Path, settings: ReplaySettings) -> tuple[list[Work], int]:
    """The plan of an earlier run of this replay, or a new one, which is kept; and how many tasks a round of it has.

    An empty one is not kept: what comes into the range later is then still to be replayed.
    """
    file = folder / _PLAN
    plan, tasks_per_round = _read_plan(file, settings) if is_there(file) else ([], settings.tasks_per_round)
    if plan:
        lost = [work.path for work in plan if not is_there(Path(work.path))]
        if lost:
            raise ArgumentError(
                f"the replay was begun, but what it reads is gone ({lost[0]}): remove {folder}, then replay "
                "what is left, with the option start"
            )
        for work in plan:
            if not work.archive and work.identities:
                check_streams(work.path, work.parts, work.identities)
        return plan, tasks_per_round
    plan = _planned(settings)
    try:
        if plan:
            _keep(plan, file, settings)
    except BaseException:
        _release(plan)
        raise
    return plan, settings.tasks_per_round


def _keep(plan: list[Work], file: Path, settings: ReplaySettings) -> None:
    """Durably, before a round is committed: their numbers, by which they are known, are those of this plan only.

    So they are of rounds of this length only: cut anew, the next round would begin elsewhere than the last one ended.
    """
    make_folders(file.parent)
    work = [asdict(each) for each in plan]
    _put(file, {"words": settings.words, "tasks_per_round": settings.tasks_per_round, "work": work})


def _put(file: Path, facts: dict[str, Any]) -> None:
    with landing(file) as kept:
        kept.write(json.dumps(with_check(facts)).encode())


def _read_plan(file: Path, settings: ReplaySettings) -> tuple[list[Work], int]:
    """What `_keep` kept. Earlier versions kept the work alone: then the settings say how long a round is.

    Raises:
        ArgumentError: it is another replay's.
        StorageError: it is damaged.
    """
    text = read_small(file, _MAX_PLAN_BYTES)
    try:
        facts = {"work": json.loads(text)} if text.startswith(b"[") else checked(text)
        tasks_per_round = int(facts.get("tasks_per_round", settings.tasks_per_round))
        plan = [
            Work(w["path"], w["archive"], tuple(map(tuple, w["parts"])), w["entries"], tuple(w.get("identities", ())))
            for w in facts["work"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise _damaged(file, error) from error
    _check_words(facts, settings)
    return plan, tasks_per_round


def _is_complete(folder: Path, settings: ReplaySettings) -> bool:
    """Whether an earlier run has completed this replay. Earlier versions did not note what it was of.

    Raises:
        ArgumentError: it is another replay that has been completed under this name.
        StorageError: the mark is damaged.
    """
    file = folder / _COMPLETE
    if not is_there(file):
        return False
    text = read_small(file, _MAX_PLAN_BYTES)
    try:
        facts = checked(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise _damaged(file, error) from error
    _check_words(facts, settings)
    return True


def _damaged(file: Path, error: Exception) -> StorageError:
    what = f"what is kept of this replay is damaged ({error}): give the replay another name"
    return StorageError(str(file), "read", 5, what)


def _check_words(facts: dict[str, Any], settings: ReplaySettings) -> None:
    before, now, name = facts.get("words", {}), settings.words, settings.writer.removeprefix("replay:")
    for what, said in before.items() if isinstance(before, dict) else ():
        if what in now and now[what] != said:
            raise ArgumentError(
                f"a replay of the name {name} has another {what}: {said!r}, not {now[what]!r}; nothing was added: "
                "give this one another name"
            )


def _release(plan: list[Work]) -> None:
    for path in {work.path for work in plan if not work.archive}:
        if leases.is_lease(Path(path)):  # of a store that is read-only it is that store
            leases.release(Path(path))


def run(spark: "SparkSession | None", settings: ReplaySettings) -> ReplaySummary:
    """Replays, or goes on with a replay that was killed.

    Args:
        spark: the session; without one it is a dry run.
        settings: what to do.

    Raises:
        ArgumentError: no such source; IDs that a target stream has passed; a name that another replay has.
        ChangedError: another run of this replay is at work.
        NoSuchStreamError, CorruptionError, ArchiveError, StorageError: see `diskstream.errors`.
    """
    settings.check()
    began = time.perf_counter()
    if spark is None or settings.dry_run:
        return _dry(replace(settings, dry_run=True), began)
    if not is_there(Path(settings.target) / "store.json"):
        _planned(replace(settings, dry_run=True))  # what cannot be replayed makes no store
    folder = _folder(settings)
    with diskstream.open(settings.target, max_open_streams=streams_within_descriptors()) as store, _alone(folder):
        if _is_complete(folder, settings):
            return replace(_summary(settings, [], 0, (0, began)), complete_before=True)
        is_new = not is_there(folder / _PLAN)
        plan, tasks_per_round = _kept_plan(folder, settings)
        settings = replace(settings, tasks_per_round=tasks_per_round)
        if is_new:
            _begin(store, folder, settings, plan)
        rounds = [plan[at : at + tasks_per_round] for at in range(0, len(plan), tasks_per_round)]
        before = last_done(store, settings.writer) + 1
        entries = 0
        for number, works in enumerate(rounds):
            if number < before:
                continue
            files = _staged(spark, settings, store.path, number, _present(works))
            commit(store, Manifest(settings.writer, number, settings.ids == "original", tuple(files)))
            entries += sum(batch.rows for file in files for batch in file.batches)
        if plan:
            _put(folder / _COMPLETE, {"words": settings.words})
        (folder / _PLAN).unlink(missing_ok=True)
    _release(plan)
    return _summary(settings, plan, entries, (min(before, len(rounds)), began))


def _folder(settings: ReplaySettings) -> Path:
    return Path(settings.target) / "replays" / hashlib.sha256(settings.writer.encode()).hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else carries this replay out meanwhile. Two that plan it at once may cut its rounds in different places,
    as their source has grown in between: of the rounds that one of them commits the other has other numbers.

    Raises:
        ChangedError: somebody does.
        StorageError: the disk said no.
    """
    make_folders(folder)
    with wrapped(folder, "open"):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not lock_now(fd, folder) or not _is_at(fd, folder):
            hint = "let it end, then run this again: it goes on where that one stopped"
            raise ChangedError(str(folder), "another run of this replay is at work", hint)
        try:
            yield
        finally:
            with suppress(OSError):  # it holds the plan, or says that the replay is complete; or others are there
                folder.rmdir()
                folder.parent.rmdir()
    finally:
        os.close(fd)


def _is_at(fd: int, folder: Path) -> bool:
    """Whether an open folder has its name still: that it was locked says nothing once it is removed."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), folder.stat())
    return False


def _dry(settings: ReplaySettings, began: float) -> ReplaySummary:
    if _is_complete(_folder(settings), settings):
        return replace(_summary(settings, [], 0, (0, began)), complete_before=True)
    plan = _planned(settings)
    if is_there(Path(settings.target) / "store.json"):
        with diskstream.open(settings.target, read_only=True) as store:
            _check_targets(store, settings, plan)
    return _summary(settings, plan, sum(work.entries for work in plan), (0, began))


def _begin(store: Store, folder: Path, settings: ReplaySettings, plan: list[Work]) -> None:
    """Looks whether a new plan can be carried out; of one that cannot nothing is left."""
    try:
        _check_targets(store, settings, plan)
    except BaseException:
        (folder / _PLAN).unlink(missing_ok=True)
        _release(plan)
        raise


def _check_targets(store: Store, settings: ReplaySettings, plan: list[Work]) -> None:
    if settings.ids == "original":
        check_targets(store, settings.writer, _present(plan), settings.target)


_Present = tuple[Work, tuple[ArchivedFile, ...]]


def _present(works: Sequence[Work]) -> list[_Present]:
    """The work of a round by the files that an archive has now: since it was planned it may have been compacted.

    Returns:
        The work, and the files of its parts if it is of an archive.

    Raises:
        ArgumentError: it is another one now, or has not the rows any more.
    """
    archives = {path: latest(Place(path)) for path in {work.path for work in works if work.archive}}
    files = {path: FilesNow(now.files) for path, now in archives.items()}
    found: list[_Present] = []
    for work in works:
        if not work.archive:
            found.append((work, ()))
            continue
        check_archive(work.path, archives[work.path], work.identities)
        there = files[work.path]
        parts = as_they_are(work.parts, there)
        found.append((replace(work, parts=parts), tuple(there.by_path[path] for _, path, *_ in parts)))
    return found


def _staged(
    spark: "SparkSession", settings: ReplaySettings, target: Path, number: int, works: Sequence[_Present]
) -> list[StagedFile]:
    job = f"replay-{hashlib.sha256(settings.writer.encode()).hexdigest()[:16]}-{number}"
    given = settings.ids == "original"
    tasks = [Round(str(target), job, given, at, work, files) for at, (work, files) in enumerate(works)]
    outcomes = run_tasks(spark, f"replay, round {number + 1}", tasks, Guarded(replay_part), quiet=settings.quiet)
    files, failed = split(outcomes)
    if failed is not None:
        discard(target, files)
        failed.raise_error()
    return [file for file in files if file.batches]


def _summary(settings: ReplaySettings, plan: list[Work], entries: int, done: tuple[int, float]) -> ReplaySummary:
    rounds = -(-len(plan) // settings.tasks_per_round)
    streams = len({target for work in plan for target, *_ in work.parts})
    seconds = time.perf_counter() - done[1]
    return ReplaySummary(entries, streams, rounds, done[0], seconds, settings.dry_run, settings.writer)
