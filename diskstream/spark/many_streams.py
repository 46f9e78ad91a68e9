"""How many streams are kept open where each of many is looked at more than once, in turn."""

import resource
from typing import Final

__all__ = ["streams_kept_open"]

_LEAST: Final = 256  # as of every store
_MOST: Final = 4096  # some 100 MB


def streams_kept_open() -> int:
    """A number for the option `max_open_streams`: of a store with more, each look through opens them all again.

    A stream takes two descriptors, and half of those that the process may have are left to Spark and to Arrow.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(_MOST, soft // 4))
