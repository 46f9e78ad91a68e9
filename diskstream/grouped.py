"""What a stream does for consumer groups: making and listing them, deletes that respect them, the full dump."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from diskstream import idempotence
from diskstream.audit import AuditRecord, as_audit_table, as_records, check_span
from diskstream.counts import check_count
from diskstream.engine import audit, reader
from diskstream.engine.log import StreamLog
from diskstream.engine.view_rows import BY_CONSUMER, BY_ID
from diskstream.errors import XGROUP_NEEDS_STREAM, ArgumentError, GroupExistsError, NoSuchStreamError
from diskstream.group import Group, check_entries_read, create_group, group_infos
from diskstream.group_info import FullConsumer, FullGroup, FullInfo, GroupInfo
from diskstream.ids import MAX_ID, IDLike, parse_id
from diskstream.membership import as_member_name, locked, looked, now_ms
from diskstream.references import check_ref, delete

if TYPE_CHECKING:
    import pyarrow as pa

    from diskstream.store import Store
    from diskstream.stream import Stream

__all__ = ["Grouped"]

_T = TypeVar("_T")


class Grouped:
    """The part of `Stream` that deals with groups."""

    _store: "Store"
    _name: bytes

    if TYPE_CHECKING:

        def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T: ...
        def _write(self, action: Callable[[StreamLog], _T], *, create: bool = True) -> _T | None: ...
        def _following(self, read: Callable[[StreamLog], Iterator[_T]]) -> Iterator[_T]: ...
        def _self(self) -> Stream: ...

    # --- groups -------------------------------------------------------------------------------------------------------

    def group(
        self, name: str | bytes, *, start: IDLike = "$", create: bool | str = True, entries_read: int | None = None
    ) -> Group:
        """The consumer group of that name.

        Args:
            name: the group's name.
            start: where a new group begins: an ID whose successors are new to it; ``$`` is the stream's end, ``0`` its
                beginning.
            create: True makes the group (and the stream) where there is none; ``"new"`` does, and it must be new; False
                makes nothing, and using it raises `NoGroupError` where there is none.
            entries_read: how many entries there were up to `start`, where that is known: for the lag.

        Raises:
            ArgumentError: a name, a start or a `create` that is none.
            GroupExistsError: `create` is ``"new"``, and there is one of that name.
        """
        key = as_member_name("group", name)
        if create not in (True, False, "new"):
            raise ArgumentError(f"create is True, False or 'new', not {create!r}")
        group = Group(self._self(), key)
        if create == "new" or (create and not (self._store.read_only or self._has(key))):
            self.create_group(key, start, mkstream=True, entries_read=entries_read, exist_ok=create is True)
        return group

    def _has(self, key: bytes) -> bool:
        def look(log: StreamLog) -> bool:
            log.refresh()  # another process may have destroyed it
            found = log.native.group_number(key) is not None
            if found:
                log.settle()  # or made it just now, and be killed before its flush
            return found

        return self._use(look, False)

    def create_group(
        self,
        name: str | bytes,
        start: IDLike = "$",
        *,
        mkstream: bool = False,
        entries_read: int | None = None,
        exist_ok: bool = False,
    ) -> Group:
        """Makes a consumer group, as XGROUP CREATE.

        Args:
            name, start, entries_read: as `group`.
            mkstream: make the stream too where there is none.
            exist_ok: leave a group of that name as it is, instead of raising.

        Raises:
            GroupExistsError: there is one of that name.
            NoSuchStreamError: there is no stream, and `mkstream` is false.
        """
        key = as_member_name("group", name)
        if start not in ("$", b"$"):
            parse_id(start)  # before a stream is made for it
        check_entries_read(entries_read)

        def make(log: StreamLog) -> bool:
            try:
                locked(log, lambda log: create_group(log, self._name, key, start, entries_read, strict=not exist_ok))
            except GroupExistsError:
                log.settle()  # who is told of that goes on as who has made it
                raise
            return True

        if self._write(make, create=mkstream) is None:
            raise NoSuchStreamError(self._name, words=XGROUP_NEEDS_STREAM)
        return Group(self._self(), key)

    def groups(self) -> list[GroupInfo]:
        """What XINFO GROUPS says, in byte order of names.

        Raises:
            NoSuchStreamError: there is no stream.
            CorruptionError: its log is damaged, so nobody knows its groups.
        """

        def look(log: StreamLog) -> list[GroupInfo]:
            reader.refuse_damaged(log)
            return group_infos(log)

        found: list[GroupInfo] | None = self._use(lambda log: looked(log, look), None)
        if found is None:
            raise NoSuchStreamError(self._name)
        return found

    # --- removing -----------------------------------------------------------------------------------------------------

    def delete_entries(self, *ids: IDLike, ref: str = "KEEPREF") -> list[int]:
        """Deletes entries with an eye on groups, as XDELEX.

        Args:
            ids: the entries.
            ref: ``KEEPREF`` leaves them pending, ``DELREF`` drops them from all pending entries lists, ``ACKED`` spares
                those that some group has not been given or has not acknowledged.

        Returns:
            For each ID -1 where there is no such entry, 1 where it is deleted, 2 where it was spared.
        """
        wanted, how = [parse_id(given) for given in ids], check_ref(ref)
        return self._use(lambda log: locked(log, lambda log: delete(log, wanted, how)), [-1] * len(wanted))

    # --- idempotent appends -------------------------------------------------------------------------------------------

    def configure_idempotence(self, *, duration_s: int | None = None, max_size: int | None = None) -> None:
        """Sets for how long, and how many of each producer's messages are remembered, as XCFGSET.

        A changed value forgets all messages, as in Redis.

        Raises:
            NoSuchStreamError: there is no stream.
            ArgumentError: out of range.
        """

        def change(log: StreamLog) -> bool:
            locked(log, lambda log: idempotence.configure(log, duration_s, max_size))
            return True

        if not self._use(change, False):
            raise NoSuchStreamError(self._name)

    def record_idempotent(self, producer: str | bytes, message_id: str | bytes, id: IDLike) -> None:
        """Remembers that an entry is a producer's message, as XIDMPRECORD: after a copy from elsewhere.

        Raises:
            NoSuchStreamError: there is no stream.
            ArgumentError: there is no such entry, or the message is another entry's.
        """
        message = as_member_name("producer", producer), as_member_name("message", message_id)
        if not message[0]:
            raise ArgumentError("producer ID must be non-empty")
        if not message[1]:
            raise ArgumentError("idempotent ID must be non-empty")
        entry_id = parse_id(id)

        def note(log: StreamLog) -> bool:
            locked(log, lambda log: idempotence.record(log, message, entry_id))
            return True

        if not self._use(note, False):
            raise NoSuchStreamError(self._name)

    # --- the audit ----------------------------------------------------------------------------------------------------

    def audit(self, start_ms: int | None = None, end_ms: int | None = None) -> Iterator[AuditRecord]:
        """What groups did, in the order of the log: who was given which entry, and what became of it.

        It goes back to when the oldest segment that there is was begun, as far as it was kept: see the option `audit`.
        Nothing is read before the iterator is used. It ends with the last record there was when it began.

        Args:
            start_ms, end_ms: only what happened from here to there, both included, by the times in the records, in
                milliseconds since 1970; None is no limit.

        Raises:
            ArgumentError: one of them is no time.
            CorruptionError: a log or an audit file cannot be read; what came before was right. Entries and groups do
                not depend on audit files.
        """
        low, high = check_span(start_ms, end_ms)
        return as_records(self._following(lambda log: audit.rows(log, low, high)))

    def audit_table(self, start_ms: int | None = None, end_ms: int | None = None) -> "pa.Table":
        """The same as an Arrow table: the fields of `AuditRecord`, an ID as ``id_ms`` and ``id_seq``.

        Raises:
            ArgumentError, CorruptionError: as `audit`.
            MissingPackageError: pyarrow is not installed.
        """
        low, high = check_span(start_ms, end_ms)
        return as_audit_table(self._following(lambda log: audit.rows(log, low, high)))

    # --- about --------------------------------------------------------------------------------------------------------

    def info_full(self, count: int = 10) -> FullInfo:
        """All of the stream's state, as XINFO STREAM FULL.

        Args:
            count: entries, and pending entries of each group and consumer, at most; 0 shows all.

        Raises:
            NoSuchStreamError: there is no stream.
        """
        limit = None if check_count("COUNT", count) == 0 else (count if count > 0 else 10)
        found: FullInfo | None = self._use(lambda log: looked(log, lambda log: _dump(log, limit)), None)
        if found is None:
            raise NoSuchStreamError(self._name)
        return found


def _dump(log: StreamLog, limit: int | None) -> FullInfo:
    length, last, added, deleted = log.native.counters()
    first = reader.first_id(log)
    blocks = reader.blocks(log, first, MAX_ID)  # a damaged log says so behind what can be read
    entries = list(islice((entry for block in blocks for entry in block.entries()), limit))
    groups = []
    for (number, name, delivered, _, _, pending, refused), info in zip(
        log.native.groups(), group_infos(log), strict=True
    ):
        rows = log.pending.rows(number, BY_ID, (0, 0, 0))
        consumers = []
        for consumer, its_name, seen, active, count in log.native.consumers(number):
            its_rows = log.pending.rows(number, BY_CONSUMER, (consumer, 0, 0), (consumer + 1, 0, 0))
            shown = list(islice(Group.shown(log, number, its_rows), limit))
            consumers.append(FullConsumer(its_name, seen, active, count, shown))
        listed = list(islice(Group.shown(log, number, rows), limit))
        read, lag = info.entries_read, info.lag
        groups.append(FullGroup(name, delivered, read, lag, pending, refused, listed, consumers))
    return FullInfo(length, last, deleted, added, first, *log.native.windows(now_ms(log)), entries, groups)
