"""redis-py's errors by name and tree, for programs without redis-py."""

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
]


class RedisError(Exception):
    """What all of them are.

    Attributes:
        status_code: the code that the reply began with, where it is not in the text.
    """

    status_code: str | None = None


class ConnectionError(RedisError):  # noqa: A001  # its name in redis-py
    """The client is closed."""


class TimeoutError(RedisError):  # noqa: A001  # its name in redis-py
    """A wait was longer than allowed. Never raised here: there is no socket."""


class AuthenticationError(ConnectionError):
    """NOAUTH, WRONGPASS."""


class BusyLoadingError(ConnectionError):
    """LOADING: the store is being closed or opened."""


class ResponseError(RedisError):
    """A command was refused."""


class DataError(RedisError):
    """An argument cannot be sent as it is."""


class WatchError(RedisError):
    """A watched key changed before EXEC."""


class NoScriptError(ResponseError):
    """NOSCRIPT."""


class OutOfMemoryError(ResponseError):
    """OOM."""


class ExecAbortError(ResponseError):
    """EXECABORT: a command of the transaction was refused when it was queued."""


class ReadOnlyError(ResponseError):
    """READONLY."""


class NoPermissionError(ResponseError):
    """NOPERM."""
