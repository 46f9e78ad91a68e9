"""The operations over an open store, or rather over two openings of one directory, with replies as those of RESP2."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from diskstream import Delivery, DiskstreamError, Entry, Group, NoSuchStreamError, Store
from tests.groups.ops import Op, words
from tests.streams.commands import Embedded, Refused
from tests.streams.layers import small_store

__all__ = ["OurSide", "agree"]

# What the existing adapter of streams takes as it is, in Redis's words.
_OF_STREAMS = ("xdel", "xsetid", "xlen", "xrange", "xread", "delete", "rename")


def agree(ours: Any, expected: Any) -> bool:
    """Whether our reply is the one that is expected. Errors of ours are classes, whose texts begin in Redis's words."""
    if ours == expected or not isinstance(expected, Refused):
        return bool(ours == expected)
    if not isinstance(ours, Refused):
        # XGROUP DESTROY of a group of no stream is an error in Redis. A group that was not there is one for us.
        return ours == 0 and expected.startswith("The XGROUP subcommand requires the key")
    return ours.startswith(f"{expected.removesuffix('.')}: ")


class OurSide:
    """The store."""

    def __init__(self, directory: Path, options: dict[str, Any], clock: Callable[[], int]) -> None:
        self._directory, self._options, self._clock = directory, options, clock
        self._stores: dict[int, Store] = {}

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    def _store(self, opening: int) -> Store:
        if opening not in self._stores:
            if opening == 2:
                self._store(0)  # there is something to read then
            options = {**self._options, "read_only": opening == 2}
            self._stores[opening] = small_store(self._directory, clock=self._clock, **options)
        return self._stores[opening]

    def run(self, given: Op, opening: int) -> Any:
        store = self._store(opening)
        try:
            if given.name in _OF_STREAMS:
                return Embedded(store).run(*words(given)[0])
            if (mine := getattr(self, f"_{given.name}", None)) is not None:
                return mine(**given.args)
            method: Callable[..., Any] = getattr(_Commands(store), given.name)
            return method(**given.args)
        except DiskstreamError as error:
            return Refused(error)

    # --- what is ours alone -------------------------------------------------------------------------------------------

    def _reopen(self, options: dict[str, Any]) -> None:
        self.close()
        self._options = options

    def _rebuild(self, options: dict[str, Any]) -> None:
        """The view is thrown away: it is rebuilt from the log without a word."""
        self._reopen(options)
        shutil.rmtree(self._directory / "view", ignore_errors=True)

    def complaints(self) -> list[str]:
        """What was said when stores were opened, beside bytes that were dropped after their time."""
        found = [
            finding for store in self._stores.values() for report in store.recoveries for finding in report.findings
        ]
        return [str(finding) for finding in found if finding.kind != "dropped"]

    def names(self) -> list[str]:
        return [name.decode() for name in self._store(0).streams()]

    def problems(self) -> list[str]:
        return [str(problem) for problem in self._store(0).verify().problems]


def _flat(entry: Entry) -> list[Any]:
    return [bytes(entry.id), [word for pair in entry.pairs for word in pair]]


def _delivery(entry: Delivery) -> list[Any]:
    return [bytes(entry.id), None] if entry.gone else _flat(entry)


def _claimed(entry: Delivery) -> list[Any]:
    return [*_delivery(entry), entry.idle_ms, entry.deliveries]


def _trim(trim: tuple[str, str, Any] | None, ref: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {} if ref is None else {"ref": ref}
    if trim is not None:
        strategy, sign, threshold = trim
        options |= {strategy.lower(): threshold, "approximate": sign == "~"}
    return options


class _Commands:
    """The commands over one opening."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _group(self, key: str, group: str) -> Group:
        return self._store.stream(key).group(group, create=False)

    # --- entries ------------------------------------------------------------------------------------------------------

    def xadd(
        self,
        key: str,
        id: str,
        fields: list[tuple[bytes, bytes]],
        trim: tuple[str, str, Any] | None = None,
        ref: str | None = None,
        producer: str | None = None,
        message: str | None = None,
        **options: Any,
    ) -> Any:
        if producer is not None:
            options |= {"producer": producer, "message_id": message}
        added = self._store.stream(key).add(fields, id, **options, **_trim(trim, ref))
        return None if added is None else bytes(added)

    def add_many(self, key: str, entries: list[tuple[str, Any]]) -> list[bytes]:
        ids, rows = [id for id, _ in entries], [fields for _, fields in entries]
        return [bytes(id) for id in self._store.stream(key).add_many(rows, ids=ids)]

    def xtrim(self, key: str, trim: tuple[str, str, Any], ref: str | None = None) -> int:
        return self._store.stream(key).trim(**_trim(trim, ref))

    def xdelex(self, key: str, ids: list[str], ref: str = "KEEPREF") -> list[int]:
        return self._store.stream(key).delete_entries(*ids, ref=ref)

    def xcfgset(self, key: str, duration: int | None = None, maxsize: int | None = None) -> bytes:
        self._store.stream(key).configure_idempotence(duration_s=duration, max_size=maxsize)
        return b"OK"

    def xidmprecord(self, key: str, producer: str, message: str, id: str) -> bytes:
        self._store.stream(key).record_idempotent(producer, message, id)
        return b"OK"

    def seal(self, key: str) -> None:
        self._store.stream(key).seal()

    def compact(self, key: str) -> None:
        self._store.stream(key).compact()

    # --- groups -------------------------------------------------------------------------------------------------------

    def xgroup_create(
        self, key: str, group: str, id: str, mkstream: bool = False, entries_read: int | None = None
    ) -> bytes:
        made = self._store.stream(key).create_group(group, id, mkstream=mkstream, entries_read=entries_read)
        assert made.name == group.encode()
        return b"OK"

    def xgroup_setid(self, key: str, group: str, id: str, entries_read: int | None = None) -> bytes:
        self._group(key, group).set_id(id, entries_read=entries_read)
        return b"OK"

    def xgroup_destroy(self, key: str, group: str) -> int:
        return int(self._group(key, group).destroy())

    def xgroup_createconsumer(self, key: str, group: str, consumer: str) -> int:
        return int(self._group(key, group).create_consumer(consumer))

    def xgroup_delconsumer(self, key: str, group: str, consumer: str) -> int:
        return self._group(key, group).delete_consumer(consumer)

    def xreadgroup(
        self,
        group: str,
        consumer: str,
        streams: list[tuple[str, str]],
        claim: int | None = None,
        way: str = "",
        **options: Any,
    ) -> Any:
        options["claim_ms"] = claim
        if len(streams) == 1 and way != "store":
            key, after = streams[0]
            entries = self._group(key, group).consumer(consumer).read(after, **options)
            found = {key.encode(): entries}
        else:
            found = self._store.read_group(group, consumer, dict(streams), **options)
        ids = [id for _, id in streams]
        # As in Redis a history switches claiming off, for the streams behind it too.
        claiming = [claim is not None and all(id == ">" for id in ids[: place + 1]) for place in range(len(ids))]
        shape = {
            key.encode(): _claimed if claims else _delivery for (key, _), claims in zip(streams, claiming, strict=True)
        }
        return [[name, [shape[name](entry) for entry in entries]] for name, entries in found.items() if entries] or None

    def xack(self, key: str, group: str, ids: list[str]) -> int:
        return self._group(key, group).ack(*ids)

    def xackdel(self, key: str, group: str, ids: list[str], ref: str = "KEEPREF") -> list[int]:
        return self._group(key, group).ack_delete(*ids, ref=ref)

    def xnack(
        self, key: str, group: str, mode: str, ids: list[str], retry: int | None = None, force: bool = False
    ) -> int:
        return self._group(key, group).nack(*ids, mode=mode, retry_count=retry, force=force)

    def xclaim(
        self,
        key: str,
        group: str,
        consumer: str,
        min_idle: int,
        ids: list[str],
        idle: int | None = None,
        time: int | None = None,
        retry: int | None = None,
        force: bool = False,
        justid: bool = False,
        last_id: str | None = None,
    ) -> list[Any]:
        options: dict[str, Any] = {"min_idle_ms": min_idle, "idle_ms": idle, "time_ms": time}
        options |= {"retry_count": retry, "force": force, "last_id": last_id}
        claiming = self._group(key, group).consumer(consumer)
        if justid:
            return [bytes(id) for id in claiming.claim_ids(*ids, **options)]
        return [_delivery(entry) for entry in claiming.claim(*ids, **options)]

    def xautoclaim(
        self, key: str, group: str, consumer: str, min_idle: int, start: str, count: int = 100, justid: bool = False
    ) -> list[Any]:
        claiming = self._group(key, group).consumer(consumer)
        if justid:
            listed = claiming.autoclaim_ids(min_idle, start, count=count)
            return [bytes(listed.cursor), _ids(listed.ids), _ids(listed.deleted)]
        found = claiming.autoclaim(min_idle, start, count=count)
        return [bytes(found.cursor), [_delivery(entry) for entry in found.entries], _ids(found.deleted)]

    def xpending(self, key: str, group: str) -> list[Any]:
        found = self._group(key, group).pending()
        ends = [None if id is None else bytes(id) for id in (found.first, found.last)]
        return [found.total, *ends, [[name, b"%d" % count] for name, count in found.consumers.items()] or None]

    def xpending_range(
        self,
        key: str,
        group: str,
        start: str,
        end: str,
        count: int,
        consumer: str | None = None,
        idle: int | None = None,
    ) -> list[Any]:
        found = self._group(key, group).pending_range(start, end, count, consumer=consumer, idle_ms=idle)
        return [[bytes(entry.id), entry.consumer, entry.idle_ms, entry.deliveries] for entry in found]

    # --- about --------------------------------------------------------------------------------------------------------

    def xinfo_stream(self, key: str) -> dict[bytes, Any]:
        info = self._store.stream(key).info()
        return {
            **_counters(info),
            b"idmp-duration": info.idmp_duration_s,
            b"idmp-maxsize": info.idmp_max_size,
            b"pids-tracked": info.producers_tracked,
            b"iids-tracked": info.messages_tracked,
            b"iids-added": info.messages_added,
            b"iids-duplicates": info.messages_duplicate,
            b"groups": info.groups,
            b"first-entry": None if info.first_entry is None else _flat(info.first_entry),
            b"last-entry": None if info.last_entry is None else _flat(info.last_entry),
        }

    def xinfo_full(self, key: str, count: int) -> dict[bytes, Any]:
        info = self._store.stream(key).info_full(count)
        return {
            **_counters(info),
            b"entries": [_flat(entry) for entry in info.entries],
            b"groups": [_full_group(group) for group in info.groups],
        }

    def xinfo_groups(self, key: str) -> list[Any]:
        return [
            {
                b"name": group.name,
                b"consumers": group.consumers,
                b"pending": group.pending,
                b"last-delivered-id": bytes(group.last_delivered_id),
                b"entries-read": group.entries_read,
                b"lag": group.lag,
            }
            for group in self._store.stream(key).groups()
        ]

    def xinfo_consumers(self, key: str, group: str) -> list[Any]:
        stream = self._store.stream(key)
        if not stream.exists():
            raise NoSuchStreamError(key.encode())
        return [
            {
                b"name": consumer.name,
                b"pending": consumer.pending,
                b"idle": consumer.idle_ms,
                b"inactive": -1 if consumer.inactive_ms is None else consumer.inactive_ms,
            }
            for consumer in stream.group(group, create=False).consumers()
        ]


def _ids(ids: Iterable[Any]) -> list[bytes]:
    return [bytes(id) for id in ids]


def _counters(info: Any) -> dict[bytes, Any]:
    return {
        b"length": info.length,
        b"last-generated-id": bytes(info.last_generated_id),
        b"max-deleted-entry-id": bytes(info.max_deleted_entry_id),
        b"entries-added": info.entries_added,
        b"recorded-first-entry-id": bytes(info.recorded_first_entry_id),
    }


def _full_group(group: Any) -> dict[bytes, Any]:
    return {
        b"name": group.name,
        b"last-delivered-id": bytes(group.last_delivered_id),
        b"entries-read": group.entries_read,
        b"lag": group.lag,
        b"pel-count": group.pel_count,
        b"nacked-count": group.nacked_count,
        b"pending": [[bytes(e.id), e.consumer, e.delivered_ms, e.deliveries] for e in group.pending],
        b"consumers": [
            {
                b"name": consumer.name,
                b"seen-time": consumer.seen_ms,
                b"active-time": consumer.active_ms,
                b"pel-count": consumer.pel_count,
                b"pending": [[bytes(e.id), e.delivered_ms, e.deliveries] for e in consumer.pending],
            }
            for consumer in group.consumers
        ],
    }
