"""A Redis server at the other end: connecting to it, and what its refusals mean in our own errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from diskstream.errors import ArgumentError, RemoteError, needs

if TYPE_CHECKING:
    from redis import Redis

__all__ = [
    "as_shown",
    "check_url",
    "connect",
    "is_demoted",
    "is_full",
    "is_passing",
    "shown",
    "takes_no_writes",
    "telling",
    "was_refused",
    "without_word",
]

_SCHEMES = ("redis", "rediss", "unix")
# What the query of an address may set, beside all of TLS: not how replies are read, and nothing that is no text.
_SETTINGS = frozenset(
    {
        "client_name",
        "db",
        "health_check_interval",
        "lib_name",
        "lib_version",
        "max_connections",
        "password",
        "protocol",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_read_size",
        "socket_timeout",
        "username",
    }
)
# What a kind of refusal tells, and its words where a script was refused by a server before 7.
_A_REPLICA = "it is a replica, which takes no writes", "name the primary"
_FULL = "it is out of memory", "make room there: raise maxmemory, or trim"
_FORBIDDEN = "its ACL forbids this", "grant this user the commands and the keys"
_OF_A_CLUSTER = "it is a node of a cluster, which holds a part of the keys", "name a server that is in no cluster"


def shown(url: str) -> str:
    """The address as it may be printed and logged: without the password, and without the query that may hold one.

    Raises:
        ArgumentError: it is no address.
    """
    parts = _split(url)
    if _is_cut(parts):
        return f"{parts.scheme}://(not shown)"
    user, at, place = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return _joined(url, parts._replace(netloc=f"{name}@{place}" if at and name else place, query="", fragment=""))


def as_shown(noted: str) -> str:
    """An address that was noted as `shown` writes it now: that of a Unix socket had one slash once, and has three."""
    return f"unix://{noted.removeprefix('unix:')}" if re.match("unix:/(?!/)", noted) else noted


def without_word(url: str, word: str) -> str:
    """The address without one of the words of its query.

    Raises:
        ArgumentError: it is no address.
    """
    parts = _split(url)
    rest = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != word]
    return _joined(url, parts._replace(query=urlencode(rest)))


def _joined(url: str, parts: SplitResult) -> str:
    """An address of other parts. With no host `urlunsplit` may leave out the slashes before it."""
    if parts.netloc or parts.scheme != "unix" or not url.partition(":")[2].startswith("//"):
        return urlunsplit(parts)
    behind = (f"{mark}{part}" for mark, part in (("?", parts.query), ("#", parts.fragment)) if part)
    return f"unix://{parts.path}{''.join(behind)}"


def _is_cut(parts: SplitResult) -> bool:
    """Whether a password seems to have a ``/``, ``?`` or ``#`` that was not quoted: then the rest of it is anywhere."""
    return parts.scheme != "unix" and "@" not in parts.netloc and any("@" in part for part in parts[2:])


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # what it says repeats the address, and nobody knows what in that is a password
        raise ArgumentError("this is no address of a Redis: redis://USER:PASSWORD@HOST:PORT/DB is one") from None


@contextmanager
def telling(url: str, doing: str) -> Iterator[None]:
    """Turns what redis-py raises within into a `RemoteError` that says where, what, and what to do about it."""
    import redis

    hints: tuple[tuple[type[Exception], str, str | None], ...] = (
        (redis.AuthenticationError, "it wants another password", "redis://USER:PASSWORD@HOST:PORT/DB"),
        (redis.exceptions.BusyLoadingError, "it is loading its data set", "run this again when it has finished"),
        (redis.exceptions.ReadOnlyError, *_A_REPLICA),
        (redis.exceptions.MasterDownError, "it is a replica whose primary is away", "run this again when it has one"),
        (redis.exceptions.OutOfMemoryError, *_FULL),
        (redis.exceptions.AskError, *_OF_A_CLUSTER),  # MOVED is one of them
        (redis.exceptions.ClusterDownError, *_OF_A_CLUSTER),
        (redis.exceptions.ClusterCrossSlotError, *_OF_A_CLUSTER),
        (redis.TimeoutError, "it did not answer in time", "run this again: it goes on where it stopped"),
        (redis.exceptions.NoPermissionError, *_FORBIDDEN),
        (
            redis.ConnectionError,
            "the connection failed",
            "run this again when it is there; see that the address is right"
            if doing == "connect"
            else "run this again: it goes on where it stopped",
        ),
        (redis.RedisError, "it refused", None),
    )
    try:
        yield
    except redis.RedisError as error:
        said = str(error)
        for kind, what, hint in hints:
            if isinstance(error, kind):
                what, hint = _said_otherwise(url, said) or (what, hint)  # noqa: PLW2901  # told by words, not by kinds
                said = said.partition(", with args beginning")[0]  # they may be a script of a hundred lines
                raise RemoteError(shown(url), f"cannot {doing}: {what} ({said})", hint) from error
        raise  # there is no other: the last kind is the root of all


def _said_otherwise(url: str, said: str) -> tuple[str, str] | None:
    """What a refusal means that its words tell, and its kind does not; and what to do."""
    if _refusal(said).startswith("READONLY "):
        return _A_REPLICA
    if _refusal(said).startswith("OOM "):
        return _FULL
    if _is_forbidden_within(said) or "discarded because of: NOPERM" in said:
        return _FORBIDDEN
    if _takes_no_writes(said):
        return (
            "it takes no writes for now",
            "run this again when it saves to its disk again, or has its replicas: its log says which",
        )
    if _is_busy(said):
        return "it is busy with a script", "run this again when that has ended"
    if said.startswith(("NOAUTH", "HELLO must")) or "Authentication required" in said:
        return "it wants a password", "redis://USER:PASSWORD@HOST:PORT/DB"
    if "DB index is out of range" in said:
        number = unquote(_split(url).path).lstrip("/")
        return f"it has no database {number}", "behind the last / of the address stands its number: 0 to 15, mostly"
    if "Unknown Redis command called from script" in said:
        return (
            "it does not know a command that a script of this needs",
            "its configuration renamed or removed one (rename-command), as XTRIM, without which nothing can be trimmed",
        )
    if "invalid bulk length" in said:
        return "it takes no value as long as one of these", "raise its proto-max-bulk-len, and run this again"
    if "unknown command" in said.lower():
        return (
            "it does not know a command that this needs",
            (
                "a Redis does unless its configuration removed it (rename-command); a diskstream serve has streams "
                "alone: to replay, name its store instead (stream:NAME@STORE)"
            ),
        )
    return None


def _refusal(said: str) -> str:
    """The words of a refusal alone: a pipeline names its command before them, and a server before 7 where in a script
    it was."""
    own = said.rpartition("caused error: ")[2]
    within = re.match(r"Error running script .*?: -(?=[A-Z]+ )", own, re.DOTALL)
    return own[within.end() :] if within else own


def _is_forbidden_within(said: str) -> bool:
    """Whether what a script does is more than its user may: a server before 7.2 has other words for it."""
    return "The user executing the script can't" in said or "ACL failure in script" in said


def _is_busy(said: str) -> bool:
    """Whether a server refuses whatever it is asked until a script has ended."""
    return _refusal(said).startswith("BUSY ")


def _takes_no_writes(said: str) -> bool:
    """Whether a server refuses writes, and PING, until it can save to its disk, or has its replicas; it is read."""
    return _refusal(said).startswith(("MISCONF ", "NOREPLICAS "))


def was_refused(error: RemoteError) -> bool:
    """Whether the server answered, and did nothing: a connection that broke off says neither."""
    import redis

    return isinstance(error.__cause__, redis.ResponseError)


def takes_no_writes(error: RemoteError) -> bool:
    """Whether a server refused a write, or PING, for a reason that passes by itself; what only reads is answered."""
    return was_refused(error) and _takes_no_writes(str(error.__cause__))


def is_demoted(error: RemoteError) -> bool:
    """Whether a server is a replica now: it refused a write, or ended a command that waited.

    Its address may lead to the new primary a moment later; what is connected already stays with this one.
    """
    import redis

    is_said = was_refused(error) and _refusal(str(error.__cause__)).startswith(("READONLY ", "UNBLOCKED "))
    return is_said or isinstance(error.__cause__, redis.exceptions.ReadOnlyError)


def is_full(error: RemoteError) -> bool:
    """Whether a server had no room for what was to be written."""
    import redis

    is_said = was_refused(error) and _refusal(str(error.__cause__)).startswith("OOM ")
    return is_said or isinstance(error.__cause__, redis.exceptions.OutOfMemoryError)


def is_passing(error: RemoteError) -> bool:
    """Whether the same may be done a moment later: the connection broke off, it took too long, is busy, cannot save, or
    another server is the primary by then."""
    import redis

    cause = error.__cause__
    if isinstance(cause, redis.ResponseError):
        is_down = isinstance(cause, redis.exceptions.MasterDownError)
        return is_down or is_demoted(error) or _is_busy(str(cause)) or _takes_no_writes(str(cause))
    return isinstance(cause, redis.ConnectionError | redis.TimeoutError) and not isinstance(
        cause, redis.AuthenticationError
    )


def connect(url: str, *, timeout_s: float = 30.0) -> Redis:
    """A client that answers in bytes, does not try again by itself, and has been heard to answer.

    Args:
        url: ``redis://``, ``rediss://`` (TLS; its query may name ``ssl_ca_certs`` and the like) or ``unix://``.
        timeout_s: seconds to wait for a connection and for each answer.

    Raises:
        ArgumentError: no such address, or redis-py is not installed, or cannot be loaded.
        RemoteError: nobody answers there, or not to us.
    """
    check_url(url)
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise ArgumentError(needs("this", "redis-py", "archive", error)) from None
    try:
        client: Redis = redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
        )
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{shown(url)!r} is no address of a Redis: {error}") from None
    try:
        with telling(url, "connect"):
            client.ping()
    except RemoteError as error:
        if takes_no_writes(error):
            return client  # what it holds can be read, and is in want of a copy more than ever
        if url.startswith("rediss:") and is_passing(error) and "certificate" not in str(error):
            error.hint = "does it speak TLS at this port? redis:// is without"
        raise
    # Of the connection, which is made only now: a setting that there is not, or a host's name that cannot be one.
    except (TypeError, UnicodeError) as error:
        raise ArgumentError(f"{shown(url)!r} is no address of a Redis: {error}") from None
    return client


def check_url(url: str) -> None:
    """That the address is one. redis-py takes database 0 where it cannot read which one was meant.

    Raises:
        ArgumentError: it is none.
    """
    parts = _split(url)
    if _is_cut(parts):
        raise ArgumentError("this is no address of a Redis: in a password write / as %2F, ? as %3F, # as %23, @ as %40")
    if parts.scheme not in _SCHEMES:
        raise ArgumentError(f"a Redis is at redis://, rediss:// or unix://, not at {shown(url)!r}")
    try:
        _ = parts.port
    except ValueError:
        raise ArgumentError(f"{shown(url)!r} is no address of a Redis: behind the host's : stands a port") from None
    words = {word for word, _ in parse_qsl(parts.query, keep_blank_values=True) if not word.startswith("ssl_")}
    if not words <= _SETTINGS:
        raise ArgumentError(
            f"{shown(url)!r} is no address of a Redis: behind ? stand settings of the connection, which are "
            f"{', '.join(sorted(_SETTINGS))} and those of TLS, ssl_ca_certs and the like"
        )
    if parts.scheme != "unix" and re.fullmatch(r"/?|/\d+", unquote(parts.path), re.ASCII) is None:
        raise ArgumentError(f"{shown(url)!r} is no address of a Redis: behind the last / stands the database's number")
