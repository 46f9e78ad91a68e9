"""Whether each entry is there once, in order; whether readers and backups saw what was there."""

from bisect import bisect_left
from collections.abc import Iterator

from tests.crowd.journal import NEVER, Op, as_number, ids_of, shown
from tests.crowd.record import READS, Record

__all__ = ["backup_faults", "entry_faults", "read_faults"]


def entry_faults(record: Record) -> Iterator[str]:
    """What is wrong with the entries that are left, and with the order of all that there were."""
    yield from record.faults
    ids = ids_of(record.survey["ids"])
    if record.survey["length"] != len(ids):
        yield f"{record.stream}: the length is {record.survey['length']}, and there are {len(ids)} entries"
    if ids_of(record.drained["ids"]) != ids and record.stream != "x":  # a rule of retention may go on in "x"
        yield f"{record.stream}: other entries after its groups were drained"
    for number in record.ids:
        if number not in record.live and record.gone_from(number) == NEVER:
            yield f"{record.stream}: {record.shown(number)} is gone, and nobody removed it"
        elif number in record.live and record.gone_by(number) != NEVER:
            yield f"{record.stream}: {record.shown(number)} was removed, and is there"
    yield from _missing(record)
    yield from _count_faults(record, record.survey["added"], 0, record.surveyed, "in the end")
    yield from _batch_faults(record)
    yield from _order_faults(record)


def _missing(record: Record) -> Iterator[str]:
    for key, how in record.added.items():
        if how.end != NEVER and record.id_of(key) is None:
            yield f"{record.stream}: {key} was added, and nobody was told its ID"


def _count_faults(record: Record, added: int, begin: int, end: int, when: str) -> Iterator[str]:
    """Whether the counter of entries is between what had been added before, and what somebody had begun to add."""
    least = bisect_left(record.ends, begin or end)
    most = bisect_left(record.begins, end)
    if not least <= added <= most:
        yield f"{record.stream}: {added} entries were added {when}, it says; there were {least} to {most}"


def _batch_faults(record: Record) -> Iterator[str]:
    """A batch is one frame: all of it or nothing, and nothing in between."""
    places = {number: at for at, number in enumerate(record.ids)}
    batches: dict[tuple[int, str], list[int]] = {}
    for number in record.ids:
        how = record.how(number)
        if how.size > 1:
            batches.setdefault((how.begin, record.keys[number].rpartition(".")[0]), []).append(number)
    for numbers in batches.values():
        how = record.how(numbers[0])
        along = [record.how(number).place for number in numbers]
        if along != sorted(along):
            yield f"{record.stream}: a batch is in another order: {[record.shown(number) for number in numbers]}"
        if len(numbers) < how.size:
            # Who was not told the IDs of a batch sees only what others saw of it before it was trimmed.
            if all(record.gone_from(number) == NEVER for number in numbers):
                yield f"{record.stream}: {len(numbers)} of {how.size} entries of a batch: {record.shown(numbers[0])}"
        elif places[numbers[-1]] - places[numbers[0]] != how.size - 1:
            yield f"{record.stream}: something is within the batch of {record.shown(numbers[0])}"


def _order_faults(record: Record) -> Iterator[str]:
    """An append that had returned before another began has the smaller ID, whoever made them."""
    events = sorted((record.how(number).begin, number) for number in record.ids)
    ended = sorted((record.how(number).latest, number) for number in record.ids)
    at = greatest = 0
    for begin, number in events:
        while at < len(ended) and ended[at][0] < begin:
            greatest = max(greatest, ended[at][1])
            at += 1
        if number <= greatest:
            before, after = record.shown(greatest), record.shown(number)
            yield f"{record.stream}: {before} was there before {after} was begun"


# --- readers ----------------------------------------------------------------------------------------------------------


def read_faults(record: Record) -> Iterator[str]:
    """What a reader saw that was not there, or did not see that was."""
    followed: dict[str, int] = {}
    for op in record.ops:
        if op.word not in READS or op.end is None:
            continue
        ids = ids_of(op.result["ids"])
        for number in ids:
            if record.gone_by(number) < op.begin:
                yield f"{record.stream}: {record.shown(number)} had been removed: {op}"
        yield from _holes(record, op, op.end, ids)
        if op.word == "follow" and ids:
            if ids[0] <= followed.get(op.role, 0):
                yield f"{record.stream}: {record.shown(ids[0])} came again: {op}"
            followed[op.role] = ids[-1]


def _holes(record: Record, op: Op, end: int, ids: list[int]) -> Iterator[str]:
    """Entries that lie in what was read, and were not given."""
    low = as_number(op.about["low"])
    if op.word == "one":
        expected = low, low
    elif op.word == "revrange" and len(ids) == op.about["count"]:
        expected = ids[0], NEVER << 64
    else:
        first = low if op.word in ("range", "revrange") else low + 1
        full = op.word != "revrange" and len(ids) == op.about["count"]
        expected = first, ids[-1] if full else NEVER << 64
        if ids and ids[0] < first:
            yield f"{record.stream}: {shown(ids[0])} is before what was asked for: {op}"
    last, given = (ids[-1] if ids else 0), set(ids)
    for number in record.unseen(expected, end, last, op.begin):
        if number in given:
            continue
        if number < last:
            yield f"{record.stream}: {record.shown(number)} was passed over: {op}"
        else:
            yield f"{record.stream}: {record.shown(number)} was there, and not seen: {op}"


# --- backups ----------------------------------------------------------------------------------------------------------


def backup_faults(record: Record, made: Op | None, read: Op) -> Iterator[str]:
    """Whether a backup is the stream as it was at one moment while it was made."""
    begin, end = (0, read.begin) if made is None or made.end is None else (made.begin, made.end)
    where = f"{record.stream} in backup {read.about['name']}"
    found = read.result["streams"][record.stream]
    ids = ids_of(found["ids"])
    if found["length"] != len(ids):
        yield f"{where}: the length is {found['length']}, and there are {len(ids)} entries"
    last, given = (ids[-1] if ids else 0), set(ids)
    for number in ids:
        if record.how(number).begin > end:
            yield f"{where}: {record.shown(number)} was added later"
        if record.gone_by(number) < begin:
            yield f"{where}: {record.shown(number)} had been removed"
    for number in record.unseen((0, NEVER << 64), end, last, begin):
        if number in given:
            continue
        if number < last:
            yield f"{where}: {record.shown(number)} is not in it, and what came later is"
        else:
            yield f"{where}: {record.shown(number)} is not in it"
    if begin:
        yield from _count_faults(record, found["added"], begin, end, f"before backup {read.about['name']}")
