"""One operation on streams and groups: a name and arguments that each side takes in its own way."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["OURS_ALONE", "Op", "brief", "op", "words"]

# What is done to our store only: a server and a model have nothing like it.
OURS_ALONE = ("seal", "compact", "reopen", "rebuild")

Words = tuple[Any, ...]

_LONG = re.compile(r"b'(\.{10,})'")


def brief(text: str) -> str:
    """Python text with large values written shorter."""
    return _LONG.sub(lambda match: f"b'.' * {len(match[1])}", text)


@dataclass(frozen=True)
class Op:
    """An operation.

    Attributes:
        name: which one; the method of each side that does it.
        args: what it is told.
        by: which opening of our store does it; 0 or 1.
        seen: which opening is looked at afterwards; 2 is open for reading only.
    """

    name: str
    args: dict[str, Any]
    by: int = 0
    seen: int = 0

    def __repr__(self) -> str:
        """As it can be pasted into a test, with Redis's words behind it."""
        args = [f"{name}={value!r}" for name, value in self.args.items()]
        openings = [f"{name}={value}" for name, value in (("by", self.by), ("seen", self.seen)) if value]
        text = f"op({', '.join([repr(self.name), *openings, *args])}),  # {self}"
        return brief(text)

    def __str__(self) -> str:
        return "; ".join(" ".join(map(_shown, command)) for command in words(self)) or self.name

    @property
    def keys(self) -> list[str]:
        """The streams that it names."""
        named = [self.args[name] for name in ("key", "new") if name in self.args]
        return named + [key for key, _ in self.args.get("streams", ())]


def op(name: str, by: int = 0, seen: int = 0, **args: Any) -> Op:
    """An operation; arguments that say nothing are left out."""
    return Op(name, {key: value for key, value in args.items() if value is not None and value is not False}, by, seen)


def _shown(word: Any) -> str:
    text = word.decode("latin-1") if isinstance(word, bytes) else str(word)
    return f"{text[:1]}*{len(text)}" if len(text) > 60 else text or "''"


def words(given: Op) -> list[Words]:
    """The commands in Redis's own words; none where a server has nothing like it."""
    if given.name in OURS_ALONE or given.name == "advance":
        return []
    if given.name == "add_many":
        return [_Spoken.xadd(given.args["key"], id, fields) for id, fields in given.args["entries"]]
    spoken: Words = getattr(_Spoken, given.name)(**given.args)
    return [spoken]


def _option(name: str, value: Any) -> Words:
    if value is True:
        return (name,)
    return () if value is None or value is False else (name, value)


def _trimming(trim: tuple[str, str, Any] | None) -> Words:
    return tuple(word for word in trim or () if word != "")


def _listed(ids: Iterable[Any]) -> Words:
    given = tuple(ids)
    return ("IDS", len(given), *given)


class _Spoken:
    """The words of each command."""

    @staticmethod
    def xadd(
        key: str,
        id: str,
        fields: list[tuple[bytes, bytes]],
        nomkstream: bool = False,
        trim: tuple[str, str, Any] | None = None,
        ref: str = "",
        producer: str | None = None,
        message: str | None = None,
    ) -> Words:
        idempotent: Words = ()
        if producer is not None:
            idempotent = ("IDMPAUTO", producer) if message is None else ("IDMP", producer, message)
        pairs = (word for pair in fields for word in pair)
        options = (*_option("NOMKSTREAM", nomkstream), *((ref,) if ref else ()), *idempotent, *_trimming(trim))
        return ("XADD", key, *options, id, *pairs)

    @staticmethod
    def xtrim(key: str, trim: tuple[str, str, Any], ref: str = "") -> Words:
        return ("XTRIM", key, *_trimming(trim), *((ref,) if ref else ()))

    @staticmethod
    def xdel(key: str, ids: list[str]) -> Words:
        return ("XDEL", key, *ids)

    @staticmethod
    def xdelex(key: str, ids: list[str], ref: str = "") -> Words:
        return ("XDELEX", key, *((ref,) if ref else ()), *_listed(ids))

    @staticmethod
    def xsetid(key: str, id: str, added: int | None = None, deleted: str | None = None) -> Words:
        return ("XSETID", key, id, *_option("ENTRIESADDED", added), *_option("MAXDELETEDID", deleted))

    @staticmethod
    def xlen(key: str) -> Words:
        return ("XLEN", key)

    @staticmethod
    def xrange(key: str, start: str, end: str, count: int | None = None) -> Words:
        return ("XRANGE", key, start, end, *_option("COUNT", count))

    @staticmethod
    def xread(streams: list[tuple[str, str]], count: int | None = None) -> Words:
        keys, ids = [key for key, _ in streams], [id for _, id in streams]
        return ("XREAD", *_option("COUNT", count), "STREAMS", *keys, *ids)

    @staticmethod
    def delete(key: str) -> Words:
        return ("DEL", key)

    @staticmethod
    def rename(key: str, new: str) -> Words:
        return ("RENAME", key, new)

    @staticmethod
    def xcfgset(key: str, duration: int | None = None, maxsize: int | None = None) -> Words:
        return ("XCFGSET", key, *_option("IDMP-DURATION", duration), *_option("IDMP-MAXSIZE", maxsize))

    @staticmethod
    def xidmprecord(key: str, producer: str, message: str, id: str) -> Words:
        return ("XIDMPRECORD", key, producer, message, id)

    # --- groups -------------------------------------------------------------------------------------------------------

    @staticmethod
    def xgroup_create(key: str, group: str, id: str, mkstream: bool = False, entries_read: int | None = None) -> Words:
        options = (*_option("MKSTREAM", mkstream), *_option("ENTRIESREAD", entries_read))
        return ("XGROUP", "CREATE", key, group, id, *options)

    @staticmethod
    def xgroup_setid(key: str, group: str, id: str, entries_read: int | None = None) -> Words:
        return ("XGROUP", "SETID", key, group, id, *_option("ENTRIESREAD", entries_read))

    @staticmethod
    def xgroup_destroy(key: str, group: str) -> Words:
        return ("XGROUP", "DESTROY", key, group)

    @staticmethod
    def xgroup_createconsumer(key: str, group: str, consumer: str) -> Words:
        return ("XGROUP", "CREATECONSUMER", key, group, consumer)

    @staticmethod
    def xgroup_delconsumer(key: str, group: str, consumer: str) -> Words:
        return ("XGROUP", "DELCONSUMER", key, group, consumer)

    @staticmethod
    def xreadgroup(
        group: str,
        consumer: str,
        streams: list[tuple[str, str]],
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        claim: int | None = None,
        noack: bool = False,
        way: str = "",  # which of our two methods: the words are the same
    ) -> Words:
        del way
        limits = (*_option("COUNT", count), *_option("MAXCOUNT", max_count), *_option("MAXSIZE", max_bytes))
        options = (*limits, *_option("CLAIM", claim), *_option("NOACK", noack))
        keys, ids = [key for key, _ in streams], [id for _, id in streams]
        return ("XREADGROUP", "GROUP", group, consumer, *options, "STREAMS", *keys, *ids)

    @staticmethod
    def xack(key: str, group: str, ids: list[str]) -> Words:
        return ("XACK", key, group, *ids)

    @staticmethod
    def xackdel(key: str, group: str, ids: list[str], ref: str = "") -> Words:
        return ("XACKDEL", key, group, *((ref,) if ref else ()), *_listed(ids))

    @staticmethod
    def xnack(key: str, group: str, mode: str, ids: list[str], retry: int | None = None, force: bool = False) -> Words:
        options = (*_option("RETRYCOUNT", retry), *_option("FORCE", force))
        return ("XNACK", key, group, mode, *_listed(ids), *options)

    @staticmethod
    def xclaim(
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
    ) -> Words:
        times = (*_option("IDLE", idle), *_option("TIME", time), *_option("RETRYCOUNT", retry))
        options = (*times, *_option("FORCE", force), *_option("JUSTID", justid), *_option("LASTID", last_id))
        return ("XCLAIM", key, group, consumer, min_idle, *ids, *options)

    @staticmethod
    def xautoclaim(
        key: str,
        group: str,
        consumer: str,
        min_idle: int,
        start: str,
        count: int | None = None,
        justid: bool = False,
    ) -> Words:
        options = (*_option("COUNT", count), *_option("JUSTID", justid))
        return ("XAUTOCLAIM", key, group, consumer, min_idle, start, *options)

    @staticmethod
    def xpending(key: str, group: str) -> Words:
        return ("XPENDING", key, group)

    @staticmethod
    def xpending_range(
        key: str,
        group: str,
        start: str,
        end: str,
        count: int,
        consumer: str | None = None,
        idle: int | None = None,
    ) -> Words:
        owner = () if consumer is None else (consumer,)
        return ("XPENDING", key, group, *_option("IDLE", idle), start, end, count, *owner)

    # --- about --------------------------------------------------------------------------------------------------------

    @staticmethod
    def xinfo_stream(key: str) -> Words:
        return ("XINFO", "STREAM", key)

    @staticmethod
    def xinfo_full(key: str, count: int) -> Words:
        return ("XINFO", "STREAM", key, "FULL", "COUNT", count)

    @staticmethod
    def xinfo_groups(key: str) -> Words:
        return ("XINFO", "GROUPS", key)

    @staticmethod
    def xinfo_consumers(key: str, group: str) -> Words:
        return ("XINFO", "CONSUMERS", key, group)
