"""redis-py's errors where it is installed, so that `except redis.ResponseError` goes on working; else the same tree."""

from typing import TYPE_CHECKING

from diskstream.commands.replies import ErrorReply

if TYPE_CHECKING:
    from redis.exceptions import (
        AuthenticationError,
        BusyLoadingError,
        ConnectionError,  # noqa: A004  # its name in redis-py
        DataError,
        ExecAbortError,
        NoPermissionError,
        NoScriptError,
        OutOfMemoryError,
        ReadOnlyError,
        RedisError,
        ResponseError,
        TimeoutError,  # noqa: A004  # its name in redis-py
        WatchError,
    )
else:
    try:
        from redis.exceptions import (
            AuthenticationError,
            BusyLoadingError,
            ConnectionError,  # noqa: A004  # its name in redis-py
            DataError,
            ExecAbortError,
            NoPermissionError,
            NoScriptError,
            OutOfMemoryError,
            ReadOnlyError,
            RedisError,
            ResponseError,
            TimeoutError,  # noqa: A004  # its name in redis-py
            WatchError,
        )
    except ImportError:
        from diskstream.compat.own_errors import (
            AuthenticationError,
            BusyLoadingError,
            ConnectionError,  # noqa: A004  # its name in redis-py
            DataError,
            ExecAbortError,
            NoPermissionError,
            NoScriptError,
            OutOfMemoryError,
            ReadOnlyError,
            RedisError,
            ResponseError,
            TimeoutError,  # noqa: A004  # its name in redis-py
            WatchError,
        )

__all__ = [
    "AuthenticationError",
    "BusyLoadingError",
    "ConnectionError",
    "DataError",
    "ExecAbortError",
    "NoPermissionError",
    "NoScriptError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "RedisError",
    "ResponseError",
    "TimeoutError",
    "WatchError",
    "error_of",
]

# The codes whose errors redis-py raises as a class of their own, without the code in the text.
_BY_CODE: dict[str, type[RedisError]] = {
    "ERR": ResponseError,
    "EXECABORT": ExecAbortError,
    "LOADING": BusyLoadingError,
    "NOAUTH": AuthenticationError,
    "NOPERM": NoPermissionError,
    "NOSCRIPT": NoScriptError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
    "WRONGPASS": AuthenticationError,
}


def error_of(reply: ErrorReply) -> RedisError:
    """The exception that redis-py makes of an error reply. ``WRONGTYPE ...``, ``NOGROUP ...`` keep their code."""
    text = reply.text.decode("utf-8", "replace")
    code, _, rest = text.partition(" ")
    known = _BY_CODE.get(code)
    if known is None:
        return ResponseError(text)
    error = known(rest)
    error.status_code = code
    return error
