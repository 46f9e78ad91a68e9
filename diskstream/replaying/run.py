"""Sending entries again, at a pace."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diskstream import Entry
from diskstream.ids import MIN_ID, EntryID
from diskstream.replaying.conditions import Condition
from diskstream.replaying.pacing import Pacer
from diskstream.replaying.sinks import Sink

__all__ = ["MAX_BATCH", "MAX_BATCH_BYTES", "Replayed", "replay"]

# So many entries are sent together, at most: or fewer, once they are so large.
MAX_BATCH = 500
MAX_BATCH_BYTES = 4 << 20


@dataclass
class Replayed:
    """What was replayed.

    Attributes:
        seen: entries read.
        sent: of these, those that met all conditions and are at the target.
        first, last: the IDs, in the source, of the first and the last that were sent; 0-0 where there was none.
        stopped: whether it was stopped before the end.
        seconds: how long it took.
    """

    seen: int = 0
    sent: int = 0
    first: EntryID = MIN_ID
    last: EntryID = MIN_ID
    stopped: bool = False
    seconds: float = 0.0


def replay(
    entries: Iterable[Entry],
    sink: Sink,
    *,
    pacer: Pacer | None = None,
    where: Sequence[Condition] = (),
    on_entries: Callable[[int, int], None] | None = None,
) -> Replayed:
    """Sends entries to a sink, each when it is due. What is due at once goes together; nothing waits for more to come.

    Args:
        entries: in the order of their IDs, behind the position of the sink.
        sink: where they go.
        pacer: when; None is as fast as it goes.
        where: conditions, all of which an entry must meet.
        on_entries: called with entries just read, and just sent.

    Raises:
        DiskstreamError: the sink does not take them; what it has taken stays, and its position says how far that is.
    """
    pace = pacer or Pacer()
    done, began = Replayed(), time.monotonic()
    batch: list[Entry] = []
    size = read = 0

    def send() -> None:
        nonlocal batch, size, read
        if batch:
            sink.send(batch)
            done.first = batch[0].id if done.sent == 0 else done.first
            done.last = batch[-1].id
            done.sent += len(batch)
        if on_entries is not None:
            on_entries(read, len(batch))
        batch, size, read = [], 0, 0

    try:
        for entry in entries:
            done.seen += 1
            read += 1
            if all(condition(entry) for condition in where):
                if pace.due_in(entry.id.ms) > 0:
                    send()
                    if not pace.wait(entry.id.ms):
                        break
                batch.append(entry)
                pace.sent()
                size += sum(len(name) + len(value) for name, value in entry.pairs)
            if len(batch) >= MAX_BATCH or size >= MAX_BATCH_BYTES or read >= MAX_BATCH * 8:
                send()
            if pace.stop.is_set():
                break
        send()
        done.stopped = pace.stop.is_set()
    finally:
        done.seconds = time.monotonic() - began
        sink.finish()
    return done
