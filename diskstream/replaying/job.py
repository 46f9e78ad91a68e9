"""A whole replay: a range of a stream to a target, begun or gone on with."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from diskstream import Entry
from diskstream import store as stores
from diskstream.commits import Commit, check_writer
from diskstream.errors import ArgumentError, ChangedError, DataLossError, NoSuchStreamError
from diskstream.ids import MAX_ID, MIN_ID, EntryID, check_not_reversed
from diskstream.redis_link import connect, shown
from diskstream.replaying.conditions import MAX_CONDITIONS, Condition, parse_condition
from diskstream.replaying.pacing import Pacer
from diskstream.replaying.plans import Plan, PlanFile
from diskstream.replaying.redis_sink import RedisSink
from diskstream.replaying.run import Replayed, replay
from diskstream.replaying.sinks import CallSink, Sink, StreamSink, check_places
from diskstream.store_files import check_target
from diskstream.stream import Stream
from diskstream.system_calls import is_there

__all__ = ["Job", "Measured", "Outcome", "ToCall", "ToRedis", "ToStream", "measure", "run_job"]


@dataclass(frozen=True)
class ToStream:
    """A stream of a store, which is made where it is missing."""

    store: Path
    name: bytes

    def __str__(self) -> str:
        return f"stream:{self.name.decode('utf-8', 'surrogateescape')}@{self.store}"


@dataclass(frozen=True)
class ToRedis:
    """A stream of a Redis."""

    url: str
    key: bytes

    def __str__(self) -> str:
        return f"{shown(self.url)}?key={self.key.decode('utf-8', 'surrogateescape')}"


@dataclass(frozen=True)
class ToCall:
    """A function that takes some entries at a time."""

    take: Callable[[Sequence[Entry]], None]

    def __str__(self) -> str:
        return "-"


@dataclass(frozen=True)
class Job:
    """What to replay, where to, and how.

    Attributes:
        source: the directory of a store, or of a backup.
        stream: the stream's name.
        target: where to.
        start, end: the first and the last ID; an end that is not there yet is the last ID as of the beginning.
        asked: the range, in the words of whoever asked: with another replay they are others.
        where: conditions: see `parse_condition`.
        keep_ids: whether entries keep their IDs; else the target gives them new ones.
        speed: 1 is the original pace; None as fast as it goes.
        rate: entries a second, at most.
        name: what tells this replay from others to the same target; made from the rest where it is empty.
        pacer: takes the place of speed and rate.
        on_total: called with how many there are to be read, once; about, where many were deleted.
        on_entries: called with entries just read, and just sent.
    """

    source: Path
    stream: bytes
    target: ToStream | ToRedis | ToCall
    start: EntryID = MIN_ID
    end: EntryID = MAX_ID
    asked: tuple[str, ...] = ("-", "+")
    where: tuple[str, ...] = ()
    keep_ids: bool = True
    speed: float | None = 1.0
    rate: float | None = None
    name: str = ""
    pacer: Pacer | None = None
    on_total: Callable[[int], None] | None = field(default=None, compare=False)
    on_entries: Callable[[int, int], None] | None = field(default=None, compare=False)

    def plan(self, stream: Stream) -> Plan:
        """The plan of this job, for the stream as it is now.

        Raises:
            CorruptionError: it is damaged where it ends, and more may have followed.
        """
        last_id = _sound_end(stream, self.end)
        return Plan(
            str(self.source.resolve()),
            self.stream.decode("utf-8", "surrogateescape"),
            self.asked,
            self.where,
            "keep" if self.keep_ids else "new",
            str(self.target),
            str(self.start),
            str(min(self.end, last_id)),
            identity=_identity(stream),
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a replay.

    Attributes:
        replayed: what this run did.
        position: the ID, in the source, up to which the target has it.
        resumed: whether an earlier run had begun it.
        complete: whether it is complete now; one that was complete before has nothing in `replayed`.
    """

    replayed: Replayed
    position: EntryID
    resumed: bool
    complete: bool


@dataclass(frozen=True)
class Measured:
    """What a replay would do.

    Attributes:
        counted: what it would read and send.
        seconds: how long it would take, where its pace says that; else None.
        resumed: whether an earlier run began it: then only what is left is counted.
        complete: whether it is done, and nothing would be sent.
    """

    counted: Replayed
    seconds: float | None
    resumed: bool = False
    complete: bool = False


def measure(job: Job) -> Measured:
    """What `run_job` would do with the same job; nothing is sent, and no file or key is made.

    Raises:
        As `run_job`.
    """
    with _source(job) as stream:
        plan, position, resumed = _standing(job, job.plan(stream), stream)
        if plan.complete:
            return Measured(Replayed(), 0.0, resumed=True, complete=True)
        # What a run would be refused for is found here as well.
        sink = CallSink(check_places if isinstance(job.target, ToStream) else lambda _: None)
        counted = replay(_left(plan, stream, position), sink, where=_conditions(job), on_entries=job.on_entries)
    seconds = None
    if job.speed is not None:
        seconds = (counted.last.ms - counted.first.ms) / 1000 / job.speed
    if job.rate is not None:
        seconds = max(seconds or 0.0, counted.sent / job.rate)
    return Measured(counted, seconds, resumed=resumed)


def _standing(job: Job, plan: Plan, source: Stream) -> tuple[Plan, EntryID, bool]:
    """The plan of an earlier run, if there was one, how far the target has it, and whether there was one."""
    name, to = job.name or plan.name, job.target
    if isinstance(to, ToStream):
        _check_place(to, name)
    if isinstance(to, ToRedis):
        with contextlib.closing(connect(to.url)) as client:
            sink = RedisSink(client, to.url, to.key, name, keep_ids=job.keep_ids)
            found, position = sink.plan(), sink.position()
            if found is None:
                check_not_reversed(job.start, job.end)
                _check_passed(job, plan, source, sink.last_id())
        earlier = None if found is None else Plan.from_json(found, shown(to.url))
    elif isinstance(to, ToStream) and is_there(to.store / "store.json"):
        with stores.open(to.store, read_only=True, create=False) as store:
            _check_other(job, to, store)
            target, writer = store.stream(to.name), _writer(name)
            earlier = PlanFile(store.path, writer).read()
            position = StreamSink(target, writer, keep_ids=job.keep_ids, sync=store.sync).position()
            if earlier is not None:
                _check_knows(to, target, writer)
            else:
                check_not_reversed(job.start, job.end)
                _check_planned(to, name, target.committed(writer))
                _check_passed(job, plan, source, target.last_id())
    else:
        check_not_reversed(job.start, job.end)
        return plan, MIN_ID, False
    if earlier is not None:
        plan.check_same(earlier)
    return earlier or plan, position, earlier is not None


def run_job(job: Job) -> Outcome:
    """Replays, or goes on with a replay that was stopped or killed.

    Raises:
        NoSuchStreamError: there is no such stream.
        ArgumentError: the target is the source; a replay of this name is another; kept IDs that the target has passed;
            an end below the start, of a replay that is not begun yet.
        ChangedError: somebody else runs this replay, or the target is not as it was left.
        DataLossError: what was to be read is gone.
        RemoteError, StorageError: the target said no; the next run goes on.
    """
    with _source(job) as stream:
        plan = job.plan(stream)
        name = job.name or plan.name
        if isinstance(job.target, ToCall):
            check_not_reversed(job.start, job.end)
            done = _send(job, plan, stream, CallSink(job.target.take), MIN_ID)
            return Outcome(done, done.last, resumed=False, complete=not done.stopped)
        if isinstance(job.target, ToStream):
            return _to_stream(job, job.target, plan, name, stream)
        return _to_redis(job, job.target, plan, name, stream)


def _sound_end(stream: Stream, end: EntryID) -> EntryID:
    """The last ID of a stream. A log that is damaged ends where the damage begins, as far as that tells."""
    last = stream.last_id()
    if end > last:
        stream.count(last, end)  # says so where more may have followed
    return last


def _identity(stream: Stream) -> str:
    return (stream.identity() or b"").hex()


@contextlib.contextmanager
def _source(job: Job) -> Iterator[Stream]:
    with stores.open(job.source, read_only=True, create=False) as store:
        if not store.exists(job.stream):
            raise NoSuchStreamError(job.stream, f"diskstream ls --dir {job.source} lists the streams")
        yield store.stream(job.stream)


def _conditions(job: Job) -> list[Condition]:
    if len(job.where) > MAX_CONDITIONS:
        raise ArgumentError(f"a replay has {MAX_CONDITIONS} conditions at most, not {len(job.where)}")
    return [parse_condition(each) for each in job.where]


def _left(plan: Plan, stream: Stream, position: EntryID) -> Iterator[Entry]:
    """The entries behind a position; behind the greatest ID there is none."""
    (first, last), after = plan.within, position.next()
    return iter(()) if after is None else stream.range(max(first, after), last)


def _count_left(plan: Plan, stream: Stream, position: EntryID) -> int:
    """How many they are; about, where many were deleted."""
    first, after, beyond = plan.within[0], position.next(), plan.within[1].next()
    if after is None:
        return 0
    return max(0, stream.count_from(max(first, after)) - (0 if beyond is None else stream.count_from(beyond)))


def _send(job: Job, plan: Plan, stream: Stream, sink: Sink, position: EntryID) -> Replayed:
    """Sends what is behind the position.

    Raises:
        DataLossError: the stream was deleted or begun anew, before all of it was read.
    """
    if job.on_total is not None:
        job.on_total(_count_left(plan, stream, position))
    entries, last = _left(plan, stream, position), plan.within[1]
    pacer = job.pacer or Pacer(job.speed, rate=job.rate)
    done = replay(entries, sink, pacer=pacer, where=_conditions(job), on_entries=job.on_entries)
    if not done.stopped and (_sound_end(stream, job.end) < last or plan.identity not in ("", _identity(stream))):
        why, advice = "it was deleted, or begun anew, while it was replayed", "a new replay is of what is there now"
        raise DataLossError(plan.stream, why, f"up to {last}", advice)
    return done


def _check_passed(job: Job, plan: Plan, stream: Stream, last_id: EntryID) -> None:
    """Refuses to begin where the target has passed the IDs that are to be kept.

    Raises:
        ArgumentError: it has.
    """
    (start, end), conditions = plan.within, _conditions(job)
    if not job.keep_ids or last_id < start:
        return
    # What does not meet the conditions is not replayed: it does not matter that the target has passed it.
    passed = stream.range(start, min(end, last_id))
    first = next((entry for entry in passed if all(condition(entry) for condition in conditions)), None)
    if first is not None:
        raise ArgumentError(
            f"{job.target} has passed the IDs that were to be kept: its last one is {last_id}, and {first.id} is the "
            "first that is replayed; let it give new IDs, or name another target"
        )


def _check_place(to: ToStream, name: str) -> None:
    """Refuses what no store can be made for, or that none can hold.

    Raises:
        As `check_target` and `check_writer`.
    """
    check_target(to.store, to.name)
    check_writer(_writer(name))


def _check_other(job: Job, to: ToStream, store: stores.Store) -> None:
    if to.name == job.stream and store.path.resolve().samefile(job.source):
        raise ArgumentError("the target is the stream that is replayed: it would never end")


def _check_knows(to: ToStream, target: Stream, writer: bytes) -> None:
    """Refuses to take a stream that was removed, or made anew, for the one to which entries were replayed.

    Raises:
        ChangedError: it does not know of the replay.
    """
    if target.committed(writer) is None:
        what = "the stream, to which entries were replayed before, does not know how far: it was removed or made anew"
        raise ChangedError(str(to), what, "replay it again from its beginning with another --name")


def _check_planned(to: ToStream, name: str, position: tuple[int, int] | None) -> None:
    """Refuses to go on behind a position where nobody can tell of what it is one: there is no plan.

    A plan is written behind the commit record of 0-0 and before the first entry is added: whoever was killed between
    the two has added nothing, and begins.

    Raises:
        ChangedError: entries were added.
    """
    if position is not None and EntryID(*position) > MIN_ID:
        what = f"the target knows of a replay {name} whose plan is gone, as in a store that was restored"
        hint = f"give another --name; it has what it was sent up to {EntryID(*position)}, behind which --start begins"
        raise ChangedError(str(to), what, hint)


def _writer(name: str) -> bytes:
    return f"replayed:{name}".encode("utf-8", "surrogateescape")


def _to_stream(job: Job, to: ToStream, plan: Plan, name: str, source: Stream) -> Outcome:
    _check_place(to, name)
    if not is_there(to.store / "store.json"):
        check_not_reversed(job.start, job.end)  # before it is made
    with stores.open(to.store) as store:
        _check_other(job, to, store)
        target, writer = store.stream(to.name), _writer(name)
        kept = PlanFile(store.path, writer)
        with kept.alone():
            earlier = kept.read()
            if earlier is None:
                check_not_reversed(job.start, job.end)
                _check_planned(to, name, target.committed(writer))
                _check_passed(job, plan, source, target.last_id())
            else:
                plan.check_same(earlier)
                plan = earlier

            def begin() -> None:
                # From here on a stream that does not know of it is another stream.
                target.note_commit(Commit(writer, 0, 0), durable=True)
                kept.write(plan)

            on_begin = begin if earlier is None else None
            sink = StreamSink(target, writer, keep_ids=job.keep_ids, sync=store.sync, on_begin=on_begin)
            if earlier is not None:
                _check_knows(to, target, writer)  # behind the sink, which adds to no other stream than this one
            if plan.complete:
                return Outcome(Replayed(), plan.within[1], resumed=True, complete=True)
            done = _send(job, plan, source, sink, sink.position())
            sink.check_same()
            if not done.stopped:
                sink.begin()  # also where there was nothing to be sent
                kept.write(replace(plan, complete=True))
            return Outcome(done, sink.position(), resumed=earlier is not None, complete=not done.stopped)


def _to_redis(job: Job, to: ToRedis, plan: Plan, name: str, source: Stream) -> Outcome:
    with contextlib.closing(connect(to.url)) as client:
        sink = RedisSink(client, to.url, to.key, name, keep_ids=job.keep_ids)
        found = sink.plan()
        if found is None:
            check_not_reversed(job.start, job.end)
            sink.position()  # is a stream, or nothing yet
            _check_passed(job, plan, source, sink.last_id())
            sink.begin(plan.as_json())
        else:
            earlier = Plan.from_json(found, shown(to.url))
            plan.check_same(earlier)
            plan = earlier
            sink.position()  # is there still
        if plan.complete:
            return Outcome(Replayed(), plan.within[1], resumed=True, complete=True)
        done = _send(job, plan, source, sink, sink.position())
        sink.check_same()
        if not done.stopped:
            sink.complete(replace(plan, complete=True).as_json())
        return Outcome(done, done.last if done.sent else sink.position(), found is not None, not done.stopped)
