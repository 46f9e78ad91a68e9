"""What there is to know of consumer groups: the answers of XINFO and XPENDING."""

from dataclasses import dataclass

from diskstream._native import Delivery, Entry, EntryID

__all__ = [
    "AutoClaim",
    "AutoClaimIDs",
    "ConsumerInfo",
    "FullConsumer",
    "FullGroup",
    "FullInfo",
    "GroupInfo",
    "PendingEntry",
    "PendingSummary",
]


@dataclass(frozen=True)
class GroupInfo:
    """A consumer group, as XINFO GROUPS shows it.

    Attributes:
        name: the group's name.
        consumers: how many it has.
        pending: entries delivered and not acknowledged.
        last_delivered_id: what comes after it is new.
        entries_read: entries of the stream up to there; None where a deletion makes it unknown, or what a repair lost.
        lag: entries that are still to be delivered; None where that is unknown, and below zero where `entries_read` was
            set to more than there were, as in Redis.
        refused: of the pending entries, those that nobody has since they were given back (XNACK).
    """

    name: bytes
    consumers: int
    pending: int
    last_delivered_id: EntryID
    entries_read: int | None
    lag: int | None
    refused: int


@dataclass(frozen=True)
class ConsumerInfo:
    """A consumer, as XINFO CONSUMERS shows it.

    Attributes:
        name: the consumer's name.
        pending: its entries that are not acknowledged.
        seen_ms: when it last tried to read or claim, in ms since 1970; attempts that found nothing count to a tenth of
            a second.
        active_ms: when it last was given something; None where it never was.
        idle_ms: milliseconds since `seen_ms`.
        inactive_ms: milliseconds since `active_ms`.
    """

    name: bytes
    pending: int
    seen_ms: int
    active_ms: int | None
    idle_ms: int
    inactive_ms: int | None


@dataclass(frozen=True)
class PendingEntry:
    """An entry of a pending entries list, as the long form of XPENDING shows it.

    Attributes:
        id: the entry's ID. The entry itself may be gone.
        consumer: who has it; empty where it was given back and nobody has it.
        idle_ms: milliseconds since it was delivered last; -1 where nobody has it.
        deliveries: how often it was delivered.
        delivered_ms: when it was delivered last, in ms since 1970; 0 where nobody has it.
    """

    id: EntryID
    consumer: bytes
    idle_ms: int
    deliveries: int
    delivered_ms: int


@dataclass(frozen=True)
class PendingSummary:
    """How much of a group is pending, as the short form of XPENDING shows it.

    Attributes:
        total: pending entries of the group.
        first, last: the least and the greatest of their IDs; None where there are none.
        consumers: how many each consumer has, of those that have any.
    """

    total: int
    first: EntryID | None
    last: EntryID | None
    consumers: dict[bytes, int]


@dataclass(frozen=True)
class AutoClaim:
    """What `Consumer.autoclaim` found.

    Attributes:
        cursor: where to go on; 0-0 when the list was gone through.
        entries: what was claimed.
        deleted: IDs that were pending though their entries are gone; they are pending no more.
    """

    cursor: EntryID
    entries: list[Delivery]
    deleted: list[EntryID]


@dataclass(frozen=True)
class AutoClaimIDs:
    """The same with IDs only (JUSTID)."""

    cursor: EntryID
    ids: list[EntryID]
    deleted: list[EntryID]


@dataclass(frozen=True)
class FullConsumer:
    """A consumer within `FullInfo`. Attributes as of `ConsumerInfo`; `pending` are its entries, by ID."""

    name: bytes
    seen_ms: int
    active_ms: int | None
    pel_count: int
    pending: list[PendingEntry]


@dataclass(frozen=True)
class FullGroup:
    """A group within `FullInfo`. Attributes as of `GroupInfo`; `pending` are its entries, by ID."""

    name: bytes
    last_delivered_id: EntryID
    entries_read: int | None
    lag: int | None
    pel_count: int
    nacked_count: int
    pending: list[PendingEntry]
    consumers: list[FullConsumer]


@dataclass(frozen=True)
class FullInfo:
    """All of a stream's state, as XINFO STREAM FULL shows it. Attributes as of `StreamInfo` and `FullGroup`."""

    length: int
    last_generated_id: EntryID
    max_deleted_entry_id: EntryID
    entries_added: int
    recorded_first_entry_id: EntryID
    idmp_duration_s: int
    idmp_max_size: int
    producers_tracked: int
    messages_tracked: int
    messages_added: int
    messages_duplicate: int
    entries: list[Entry]
    groups: list[FullGroup]
