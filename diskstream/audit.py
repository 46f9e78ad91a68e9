"""The audit of consumer groups: who was given which entry, when, and what became of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diskstream._native import EntryID
from diskstream.columnar import import_arrow
from diskstream.engine.audit import MAX_MS, AuditRow
from diskstream.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AuditRecord", "as_audit_table", "as_records", "check_span"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One thing that a consumer group did.

    Attributes:
        time_ms: when, by the clock of the store, in milliseconds since 1970.
        lsn: the number of its frame in the log; records of one operation share it, and happened together.
        action: what, see below.
        group: the name of the group; None for what is no group's. ``#12`` is group 12, where its name is lost.
        consumer: who got the entry, or the consumer that was made or removed; None where there is none.
        id: the entry; of ``create`` and ``position`` the ID from which on entries are new.
        deliveries: how often the entry counts as delivered from then on; None where that is not said.
        owner_before: who had the entry until then, ``b""`` for nobody (it had been given back); None where it was not
            pending.

    ======== ===========================================================================================================
    create   the group was made
    position the group was set to another ID; also a read with `noack`, which leaves no other trace
    destroy  the group was removed, with all that was pending in it
    consumer the consumer was made
    dismiss  the consumer was removed
    deliver  the entry was given to `consumer` as a new one
    redeliver the same consumer got it once more, from its own pending entries
    claim    `consumer` took it over
    refuse   it was given back
    ack      it is pending no more, and the log says nothing else. Nearly always it was acknowledged, by whomever: the
             log does not say who. A trim with DELREF, a delete with DELREF of an entry that was gone already, a claim
             that found nothing but entries that are gone, and the first parts of a very long list of a removed consumer
             look the same
    drop     it is pending no more, in the step that removed its consumer, or in a claim that found it gone
    remove   it is pending no more, in the step that deleted entries: acknowledged and deleted, or deleted with DELREF
    delete   entries were deleted with an eye on groups; `id` is the greatest of them, None for a trim with ACKED
    trim     entries were trimmed in the same step
    ======== ===========================================================================================================
    """

    time_ms: int
    lsn: int
    action: str
    group: bytes | None
    consumer: bytes | None
    id: EntryID | None
    deliveries: int | None
    owner_before: bytes | None


def check_span(start_ms: int | None, end_ms: int | None) -> tuple[int, int]:
    """Both ends, in milliseconds since 1970; None is the beginning, and the end.

    Raises:
        ArgumentError: one is no int, or below zero.
    """
    for name, value in (("start_ms", start_ms), ("end_ms", end_ms)):
        if value is not None and (type(value) is not int or value < 0):
            raise ArgumentError(f"{name} must be milliseconds since 1970 as an int, not {value!r}")
    low, high = 0 if start_ms is None else start_ms, MAX_MS if end_ms is None else end_ms
    return min(low, MAX_MS), min(high, MAX_MS)


def as_records(batches: Iterable[list[AuditRow]]) -> Iterator[AuditRecord]:
    """The records, one by one."""
    for batch in batches:
        for row in batch:
            yield AuditRecord(*row)


def as_audit_table(batches: Iterable[list[AuditRow]]) -> "pa.Table":
    """The records as an Arrow table: the fields of `AuditRecord`, an ID as ``id_ms`` and ``id_seq``.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    pa = import_arrow("audit_table()")
    schema = pa.schema(
        [
            pa.field("time_ms", pa.uint64(), nullable=False),
            pa.field("lsn", pa.uint64(), nullable=False),
            pa.field("action", pa.string(), nullable=False),
            pa.field("group", pa.binary()),
            pa.field("consumer", pa.binary()),
            pa.field("id_ms", pa.uint64()),
            pa.field("id_seq", pa.uint64()),
            pa.field("deliveries", pa.uint64()),
            pa.field("owner_before", pa.binary()),
        ]
    )

    def packed(rows: list[AuditRow]) -> Any:
        times, lsns, actions, groups, consumers, ids, deliveries, owners = zip(*rows, strict=True)
        ms = [None if entry_id is None else entry_id.ms for entry_id in ids]
        seq = [None if entry_id is None else entry_id.seq for entry_id in ids]
        columns = [times, lsns, actions, groups, consumers, ms, seq, deliveries, owners]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.record_batch(arrays, schema=schema)

    return pa.Table.from_batches([packed(rows) for rows in batches if rows], schema=schema)
