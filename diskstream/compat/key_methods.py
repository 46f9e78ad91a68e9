"""redis-py's methods for keys, and those of the connection and the server that programs with streams use."""

import datetime as dt
import warnings
from collections.abc import Iterator
from typing import Any

from diskstream.compat.calling import Answer, Calling
from diskstream.compat.link import NEVER_DECODE

__all__ = ["KeyMethods", "ScanMethods"]


class KeyMethods(Calling):
    """Names and arguments are redis-py's."""

    def copy(self, source: str, destination: str, destination_db: str | None = None, replace: bool = False) -> Answer:
        """Copies a key. Returns whether it did."""
        words = [] if destination_db is None else ["DB", destination_db]
        return self.execute_command("COPY", source, destination, *words, *(["REPLACE"] if replace else []))

    def delete(self, *names: Any) -> Answer:
        """Deletes keys. Returns how many there were."""
        return self.execute_command("DEL", *names)

    def __delitem__(self, name: Any) -> None:
        self.delete(name)

    def dump(self, name: Any) -> Answer:
        """A key as bytes that `restore` takes; None where there is none."""
        return self.execute_command("DUMP", name, **{NEVER_DECODE: True})

    def exists(self, *names: Any) -> Answer:
        """How many of these keys there are."""
        return self.execute_command("EXISTS", *names)

    __contains__ = exists

    def expire(
        self,
        name: Any,
        time: int | dt.timedelta,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Answer:
        """Lets a key end in so many seconds. Returns whether it will."""
        return self.execute_command("EXPIRE", name, _span(time, 1), *_conditions(nx, xx, gt, lt))

    def expireat(
        self,
        name: Any,
        when: int | dt.datetime,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Answer:
        """Lets a key end then, in seconds since 1970. Returns whether it will."""
        return self.execute_command("EXPIREAT", name, _moment(when, 1), *_conditions(nx, xx, gt, lt))

    def expiretime(self, key: str) -> Answer:
        """When a key ends, in seconds since 1970; -1 never, -2 there is none."""
        return self.execute_command("EXPIRETIME", key)

    def keys(self, pattern: Any = "*", **kwargs: Any) -> Answer:
        """The keys that match a glob pattern."""
        return self.execute_command("KEYS", pattern, **kwargs)

    def move(self, name: Any, db: int) -> Answer:
        """Moves a key to another database. Returns whether it did."""
        return self.execute_command("MOVE", name, db)

    def object(self, infotype: str, key: Any, **kwargs: Any) -> Answer:
        """What OBJECT says: ``ENCODING``, ``IDLETIME``, ``REFCOUNT``."""
        return self.execute_command("OBJECT", infotype, key, infotype=infotype, **kwargs)

    def persist(self, name: Any) -> Answer:
        """Lets a key stay. Returns whether it would have ended."""
        return self.execute_command("PERSIST", name)

    def pexpire(
        self,
        name: Any,
        time: int | dt.timedelta,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Answer:
        """Lets a key end in so many milliseconds. Returns whether it will."""
        return self.execute_command("PEXPIRE", name, _span(time, 1000), *_conditions(nx, xx, gt, lt))

    def pexpireat(
        self,
        name: Any,
        when: int | dt.datetime,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Answer:
        """Lets a key end then, in milliseconds since 1970. Returns whether it will."""
        return self.execute_command("PEXPIREAT", name, _moment(when, 1000), *_conditions(nx, xx, gt, lt))

    def pexpiretime(self, key: str) -> Answer:
        """When a key ends, in milliseconds since 1970; -1 never, -2 there is none."""
        return self.execute_command("PEXPIRETIME", key)

    def pttl(self, name: Any) -> Answer:
        """In how many milliseconds a key ends; -1 never, -2 there is none."""
        return self.execute_command("PTTL", name)

    def randomkey(self, **kwargs: Any) -> Answer:
        """Some key; None where there is none."""
        return self.execute_command("RANDOMKEY", **kwargs)

    def rename(self, src: Any, dst: Any) -> Answer:
        """Gives a key another name. Returns True."""
        return self.execute_command("RENAME", src, dst)

    def renamenx(self, src: Any, dst: Any) -> Answer:
        """The same unless there is a key of that name. Returns whether it did."""
        return self.execute_command("RENAMENX", src, dst)

    def restore(
        self,
        name: Any,
        ttl: float,
        value: Any,
        replace: bool = False,
        absttl: bool = False,
        idletime: int | None = None,
        frequency: int | None = None,
    ) -> Answer:
        """Makes a key of what `dump` gave, to end in `ttl` milliseconds (0: never). Returns ``OK``."""
        words: list[Any] = [name, ttl, value]
        words += [word for word, wanted in (("REPLACE", replace), ("ABSTTL", absttl)) if wanted]
        for word, number in (("IDLETIME", idletime), ("FREQ", frequency)):
            words += [] if number is None else [word, int(number)]
        return self.execute_command("RESTORE", *words)

    def touch(self, *args: Any) -> Answer:
        """How many of these keys there are."""
        return self.execute_command("TOUCH", *args)

    def ttl(self, name: Any) -> Answer:
        """In how many seconds a key ends; -1 never, -2 there is none."""
        return self.execute_command("TTL", name)

    def type(self, name: Any) -> Answer:
        """What a key is: ``stream``, or ``none``."""
        return self.execute_command("TYPE", name)

    def unlink(self, *names: Any) -> Answer:
        """Deletes keys. Returns how many there were."""
        return self.execute_command("UNLINK", *names)

    def watch(self, *names: Any) -> Answer:  # noqa: ARG002  # redis-py's
        """Does nothing: keys are watched by a pipeline."""
        warnings.warn(DeprecationWarning("Call WATCH from a Pipeline object"), stacklevel=2)

    def unwatch(self) -> Answer:
        """Does nothing: keys are watched by a pipeline."""
        warnings.warn(DeprecationWarning("Call UNWATCH from a Pipeline object"), stacklevel=2)

    def scan(
        self, cursor: int = 0, match: Any = None, count: int | None = None, _type: str | None = None, **kwargs: Any
    ) -> Answer:
        """Some keys. Returns the cursor for the next call (0: that was all) and the keys."""
        words: list[Any] = [cursor]
        for option, value in (("MATCH", match), ("COUNT", count), ("TYPE", _type)):
            words += [] if value is None else [option, value]
        return self.execute_command("SCAN", *words, **kwargs)

    # --- the connection and the server --------------------------------------------------------------------------------

    def config_get(self, pattern: Any = "*", *args: Any, **kwargs: Any) -> Answer:
        """The settings that match a glob pattern."""
        return self.execute_command("CONFIG GET", pattern, *args, **kwargs)

    def config_set(self, name: Any, value: Any, *args: Any, **kwargs: Any) -> Answer:
        """Changes settings. Returns True."""
        return self.execute_command("CONFIG SET", name, value, *args, **kwargs)

    def dbsize(self, **kwargs: Any) -> Answer:
        """How many keys the database has."""
        return self.execute_command("DBSIZE", **kwargs)

    def echo(self, value: Any, **kwargs: Any) -> Answer:
        """The same word back."""
        return self.execute_command("ECHO", value, **kwargs)

    def flushall(self, asynchronous: bool = False, **kwargs: Any) -> Answer:
        """Deletes all keys of all databases. Returns True."""
        return self.execute_command("FLUSHALL", *(["ASYNC"] if asynchronous else []), **kwargs)

    def flushdb(self, asynchronous: bool = False, **kwargs: Any) -> Answer:
        """Deletes all keys of the database. Returns True."""
        return self.execute_command("FLUSHDB", *(["ASYNC"] if asynchronous else []), **kwargs)

    def info(self, section: str | None = None, *args: str, **kwargs: Any) -> Answer:
        """What INFO says, as a dictionary."""
        return self.execute_command("INFO", *([] if section is None else [section, *args]), **kwargs)

    def ping(self, **kwargs: Any) -> Answer:
        """True."""
        return self.execute_command("PING", **kwargs)

    def time(self, **kwargs: Any) -> Answer:
        """Seconds since 1970, and microseconds."""
        return self.execute_command("TIME", **kwargs)


class ScanMethods(KeyMethods):
    """What else a client has that answers at once."""

    def scan_iter(
        self, match: Any = None, count: int | None = None, _type: str | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """All keys, one after the other."""
        cursor: int | str = "0"
        while cursor != 0:
            cursor, names = self.scan(cursor, match=match, count=count, _type=_type, **kwargs)  # type: ignore[arg-type]  # a cursor is a number or text, as in redis-py
            yield from names


def _span(time: int | dt.timedelta, per_second: int) -> int:
    return int(time.total_seconds() * per_second) if isinstance(time, dt.timedelta) else time


def _moment(when: int | dt.datetime, per_second: int) -> int:
    return int(when.timestamp() * per_second) if isinstance(when, dt.datetime) else when


def _conditions(nx: bool, xx: bool, gt: bool, lt: bool) -> list[str]:
    return [word for word, wanted in (("NX", nx), ("XX", xx), ("GT", gt), ("LT", lt)) if wanted]
