"""redis-py's stream methods over a store in this process: `Redis`, and `aio.Redis` for asyncio.

::

    # client = redis.Redis(host="localhost")
    client = diskstream.compat.Redis("data")

Names, arguments, replies and errors are redis-py's. See docs/compat.md.
"""

from diskstream.compat import aio
from diskstream.compat.client import Redis
from diskstream.compat.errors import (
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
from diskstream.compat.pipeline import Pipeline

__all__ = [
    "AuthenticationError",
    "BusyLoadingError",
    "ConnectionError",
    "DataError",
    "ExecAbortError",
    "NoPermissionError",
    "NoScriptError",
    "OutOfMemoryError",
    "Pipeline",
    "ReadOnlyError",
    "Redis",
    "RedisError",
    "ResponseError",
    "TimeoutError",
    "WatchError",
    "aio",
    "from_url",
]

from_url = Redis.from_url
