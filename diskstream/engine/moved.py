"""What is raised where a stream, or what a call had open as it began, is not to be used any more; and forks counted."""

import os

from diskstream import _native
from diskstream.errors import ChangedError, ClosedError, DiskstreamError

__all__ = ["FORKS", "ForkedError", "GivenUpError", "StreamMoved", "cut_short"]


class StreamMoved(Exception):  # noqa: N818  # not an error: look the stream up again
    """The stream was deleted, renamed or replaced by somebody: its name must be looked up again."""


class ForkedError(StreamMoved, ClosedError):
    """The call was begun by the parent of this process, which goes on with it; a signal handler forked in between.

    Where a stream is looked up again, the call is done anew in the child; else this is what the child is told.
    """

    def __init__(self) -> None:
        what = "this process was forked in the midst of a call, which goes on in its parent: begin the call again"
        DiskstreamError.__init__(self, what)


class GivenUpError(StreamMoved, ClosedError):
    """Another thread of this process closed the stream, or its store, just before this one took a lock of its page.

    Where a stream is looked up again, the call is done anew; else this is what the thread is told.
    """

    def __init__(self) -> None:
        DiskstreamError.__init__(self, "it was closed by another thread of this process: open it again")


def cut_short(what: object) -> ChangedError:
    """The error of who has given a part of a stream that went then: a part must not pass for all of it."""
    why = "it was removed or renamed while it was read, or this process was forked: what was read is not all of it"
    return ChangedError(str(what), why, "read it again")


class _Forks:
    """Of this process, from the one that loaded this module, how many forks it is away.

    What belongs to one process remembers the count as it was made. That is compared with no call in between, and so no
    signal handler: what the next call does is done by who was asked. `os.getpid` would leave a gap.
    """

    count = 0


FORKS = _Forks()


def _forked() -> None:
    FORKS.count += 1
    _native.forked()


os.register_at_fork(after_in_child=_forked)
