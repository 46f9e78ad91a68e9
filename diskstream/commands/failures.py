"""diskstream's errors in Redis's words."""

import errno
import logging

from diskstream.commands.replies import Failure
from diskstream.errors import (
    ArgumentError,
    ClosedError,
    CorruptionError,
    DiskFullError,
    DiskstreamError,
    GroupExistsError,
    InvalidIDError,
    LimitError,
    NoGroupError,
    NoSuchStreamError,
    ReadOnlyError,
    StorageError,
)

__all__ = [
    "BAD_ID",
    "SYNTAX",
    "WRONG_TYPE",
    "c_text",
    "failure_of",
    "fault_of",
    "misused",
    "no_group",
    "no_key",
    "no_memory",
]

# Only a server answers for what it does not know: see `fault_of`.
_LOG = logging.getLogger("diskstream.server")
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
SYNTAX = "ERR syntax error"
BAD_ID = "ERR Invalid stream ID specified as stream command argument"


def c_text(word: bytes) -> bytes:
    """What Redis sees of a word that it takes for a C string, as all options and what errors quote: up to its NUL."""
    return word if 0 not in word else word[: word.index(0)]


def no_key() -> Failure:
    """There is no such key, for commands that want one."""
    return Failure("ERR no such key")


def no_group(key: bytes, group: bytes, *, where: bytes = b"") -> Failure:
    """There is no such group, or no such key: XCLAIM, XAUTOCLAIM, XPENDING, XNACK and, with `where`, XREADGROUP."""
    return Failure(b"NOGROUP No such key '%s' or consumer group '%s'%s" % (c_text(key), c_text(group), where))


def misused(words: list[bytes]) -> Failure:
    """A subcommand does not take the words behind it."""
    said = c_text(words[1]), words[0].upper()
    return Failure(b"ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP." % said)


def failure_of(error: DiskstreamError | OSError, command: str, *, writes: bool = True) -> Failure:
    """What a client is told of an error that a command did not expect, without what only an embedding program can do.

    Disks that are full or say no are Redis's MISCONF: writes fail, reads go on, and writes resume by themselves. What a
    command could not read that only reads says nothing of that.
    """
    if isinstance(error, NoSuchStreamError):
        return no_key()
    if isinstance(error, NoGroupError):
        return no_group(error.stream, error.group)
    if isinstance(error, GroupExistsError):
        return Failure("BUSYGROUP Consumer Group name already exists")
    if isinstance(error, InvalidIDError):
        return Failure(BAD_ID)
    if isinstance(error, LimitError) and "name" not in error.what:
        return Failure("ERR Elements are too large to be stored")
    if isinstance(error, ArgumentError):
        return Failure(f"ERR {_one_line(error)}")
    refused = isinstance(error, DiskFullError | ReadOnlyError) or (
        isinstance(error, StorageError) and error.errno in (errno.EIO, errno.EROFS, errno.EDQUOT, errno.ENOSPC)
    )
    if refused and (writes or isinstance(error, DiskFullError)):
        return Failure(f"MISCONF Errors writing to the store: {_one_line(error)}")
    if isinstance(error, CorruptionError):
        call, verb = error.listed_by
        said = _one_line(error).removesuffix(f"; {call} lists all that is damaged")
        return Failure(f"ERR '{command}' met damaged data: {said}; `{verb}` lists all that is damaged")
    if isinstance(error, ClosedError):
        return Failure("LOADING the store is being closed or opened")
    return Failure(f"ERR {_one_line(error)}")


def no_memory(error: MemoryError) -> Failure:
    """What a client of a server is told where there is no memory for its command, in the word that Redis has for it."""
    return Failure(f"OOM {_one_line(error) or 'no memory for this command'}")


def fault_of(error: Exception, command: str) -> Failure:
    """What a client of a server is told of a mistake of ours, which the log shows: the other clients are served on.

    A client without a server is a program's own, and meets the error itself.
    """
    _LOG.error("a fault in '%s': %s", command, _one_line(error), exc_info=error)
    return Failure("ERR internal error: the server's log tells of it")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
