"""Commands of several callers that are run as one: plain XADDs for one key, and XACKs for one group."""

from collections.abc import Callable
from typing import TypeAlias

from diskstream.acknowledging import acknowledge
from diskstream.commands.adding_together import add_together, adds_from
from diskstream.commands.caller import Caller
from diskstream.commands.id_words import as_id
from diskstream.commands.replies import Failure, Reply
from diskstream.errors import DiskstreamError

__all__ = ["Kin", "has_kin", "kin_of", "run_alike"]

_LEAST_ACK_WORDS = 4
_Together: TypeAlias = Callable[[Caller, list[list[bytes]]], list[Reply] | None]
# What runs them, and for what: commands that follow each other and have the same may be one.
Kin: TypeAlias = tuple[_Together, int, bytes, bytes]


def has_kin(words: list[bytes]) -> bool:
    """Whether a command may be run with others."""
    return _is_ack(words) or adds_from([words], 0) == 1


def kin_of(caller: Caller, words: list[bytes]) -> Kin | None:
    """What a command is alike with; None where it is run by itself, or is not run at all but queued or refused."""
    if caller.transaction is not None or caller.user is None or not has_kin(words):
        return None
    if _is_ack(words):
        return _ack_together, caller.database, words[1], words[2]
    return add_together, caller.database, words[1], b""


def _is_ack(words: list[bytes]) -> bool:
    return len(words) >= _LEAST_ACK_WORDS and words[0].upper() == b"XACK"


def run_alike(kin: Kin, caller: Caller, commands: list[list[bytes]]) -> list[Reply] | None:
    """The replies to commands that are alike; None where each must be run by itself, so that it has its own error."""
    return kin[0](caller, commands)


def _ack_together(caller: Caller, commands: list[list[bytes]]) -> list[Reply] | None:
    try:
        asked = [([as_id(word) for word in words[3:]], None) for words in commands]
        group = caller.keyspace.stream(caller.database, commands[0][1]).group(commands[0][2], create=False)
        counts = acknowledge(group, asked)
    except (Failure, DiskstreamError):
        return None
    caller.keyspace.statistics.of("xack").calls += len(counts)
    return list(counts)
