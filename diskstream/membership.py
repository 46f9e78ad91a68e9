"""Groups and consumers by name: finding them, making consumers when they are first named."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from diskstream._native import MAX_CONSUMERS, MAX_GROUPS, MAX_NAME_BYTES, MAX_NAMES_BYTES, SEEN_EVERY_MS
from diskstream.engine.fetching import fetching_outside
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError, ArgumentTypeError, LimitError, NoGroupError

if TYPE_CHECKING:
    from diskstream.group import Group

__all__ = [
    "as_member_name",
    "check_room",
    "consumer_number",
    "group_number",
    "idle_ms",
    "locked",
    "looked",
    "make_consumer",
    "make_group",
    "now_ms",
    "seen",
]

_T = TypeVar("_T")
_LONGEST_MS = 2**63 - 1


def as_member_name(what: str, name: object) -> bytes:
    """The name of a group, a consumer or a producer as bytes.

    Raises:
        ArgumentTypeError: neither text nor bytes.
        ArgumentError: text that UTF-8 cannot hold.
        LimitError: too long.
    """
    if isinstance(name, str):
        try:
            name = name.encode()
        except UnicodeEncodeError:
            raise ArgumentError(f"the name of a {what} must be text that UTF-8 can hold, or bytes") from None
    if not isinstance(name, bytes):
        raise ArgumentTypeError(f"the name of a {what} is str or bytes, not {name!r}")
    if len(name) > MAX_NAME_BYTES:
        raise LimitError(f"the name of a {what}", MAX_NAME_BYTES, len(name))
    return name


def now_ms(log: StreamLog) -> int:
    """Milliseconds of the store's clock."""
    now = log.now()
    return int(time.time() * 1000) if now is None else now


def idle_ms(owner: int, delivered_ms: int, now: int) -> int:
    """For how long a pending entry has been with its owner; -1 where it is nobody's. As Redis counts, in 63 bits."""
    return min(max(0, now - delivered_ms), _LONGEST_MS) if owner else -1


def locked(log: StreamLog, action: Callable[[StreamLog], _T]) -> _T:
    """Changes a stream's groups under its append lock. Under `always` it returns when the change is durable.

    `action` reads what it needs of the entries before it changes anything.
    """

    def change() -> _T:
        with log.locked():
            log.prepare()
            result = action(log)
            log.pending.relieve()
        return result

    result = fetching_outside(log, change)
    log.settle()
    return result


def looked(log: StreamLog, look: Callable[[StreamLog], _T]) -> _T:
    """Looks at a stream's groups, with nobody changing them meanwhile; also where nothing may be changed."""
    if log.read_only:
        with log._mutex:  # another thread of this process may follow who writes
            log.refresh()
            return look(log)

    def look_held() -> _T:
        with log.locked():
            log.refresh()
            return look(log)

    found = fetching_outside(log, look_held)
    log.settle()
    return found


def group_number(log: StreamLog, group: "Group") -> int:
    """The number of a group.

    Raises:
        NoGroupError: there is no such group.
    """
    number = log.native.group_number(group.name)
    if number is None:
        raise NoGroupError(group.stream.name, group.name)
    return number


def check_room(log: StreamLog) -> None:
    """Refuses one more name where those of a stream take too much room: each snapshot holds them all.

    Raises:
        LimitError: there is no room.
    """
    size = log.native.names_bytes
    if size >= MAX_NAMES_BYTES:
        size -= log.native.past_names_bytes(now_ms(log))  # which go with the next message
    if size >= MAX_NAMES_BYTES:
        raise LimitError("the names of groups, consumers and messages together", MAX_NAMES_BYTES, size)


def make_group(log: StreamLog, record: tuple[object, ...]) -> None:
    """Adds a group.

    Raises:
        LimitError: there are too many.
    """
    count = log.native.group_count[0]
    if count >= MAX_GROUPS:
        raise LimitError("the number of groups", MAX_GROUPS, count + 1)
    check_room(log)
    now = now_ms(log)
    log.retry(lambda: log.native.change([record], now), held=True)


def make_consumer(log: StreamLog, group: int, name: bytes) -> bool:
    """Adds a consumer; False where there is one of that name.

    Raises:
        LimitError: there are too many.
    """
    if log.native.consumer_number(group, name) is not None:
        return False
    now = now_ms(log)
    count = log.native.consumer_count(group)
    if count >= MAX_CONSUMERS:
        raise LimitError("the number of consumers", MAX_CONSUMERS, count + 1)
    check_room(log)
    log.retry(lambda: log.native.change([("consumer", group, name)], now), held=True)
    return True


def consumer_number(log: StreamLog, group: int, name: bytes) -> int:
    """The number of a consumer, which is made where there is none."""
    number = log.native.consumer_number(group, name)
    if number is None:
        make_consumer(log, group, name)
        number = log.native.consumer_number(group, name)
        assert number is not None  # it was just made, under the lock
    return number


def seen(log: StreamLog, group: int, consumer: int) -> None:
    """Notes that a consumer tried to read, if that was not noted just before."""
    now = now_ms(log)
    before = log.native.consumer_seen(group, consumer)
    if before is None or not before <= now < before + SEEN_EVERY_MS:
        log.retry(lambda: log.native.change([("seen", group, consumer)], now), held=True)
