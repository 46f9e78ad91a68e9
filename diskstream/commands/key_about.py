"""What is to be known of how a key is kept: OBJECT and MEMORY."""

import re

from diskstream.commands.arguments import as_int
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.help import help_of
from diskstream.commands.replies import OK, Failure, Reply
from diskstream.commands.table import Command, Run
from diskstream.commands.wire import report_of

__all__ = ["COMMANDS"]

_NO_FREQUENCY = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
    "between policies at runtime LRU and LFU data will take some time to adjust."
)
_OBJECT_HELP = """\
ENCODING <key>
    Return the kind of internal representation used in order to store the value
    associated with a <key>.
FREQ <key>
    Return the access frequency index of the <key>. The returned integer is
    proportional to the logarithm of the recent access frequency of the key.
IDLETIME <key>
    Return the idle time of the <key>, that is the approximated number of
    seconds elapsed since the last access to the key.
REFCOUNT <key>
    Return the number of references of the value associated with the specified
    <key>."""
_MEMORY_HELP = """\
DOCTOR
    Return memory problems reports.
PURGE
    Attempt to purge dirty pages for reclamation by the allocator.
USAGE <key> [SAMPLES <count>]
    Return memory in bytes used by <key> and its value. Nested values are
    sampled up to <count> times (default: 5, 0 means sample all)."""
_EMBEDDED_BYTES = 44  # of a string, as Redis has it
_RECORD_BYTES = 64  # of a key in memory, about


def _encoding(caller: Caller, words: list[bytes]) -> Reply:
    found = caller.keyspace.held(caller.database, words[2])
    if found is None:
        return None
    kind, values = found
    if kind == "string":
        if re.fullmatch(rb"0|-?[1-9][0-9]{0,18}", values[0]):
            return "int"
        return "embstr" if len(values[0]) <= _EMBEDDED_BYTES else "raw"
    if kind == "set" and all(re.fullmatch(rb"0|-?[1-9][0-9]{0,18}", value) for value in values):
        return "intset"
    return kind if kind == "stream" else "listpack"


def _if_there(value: Reply) -> Run:
    def run(caller: Caller, words: list[bytes]) -> Reply:
        return None if caller.keyspace.kind(caller.database, words[2]) is None else value

    return run


def _frequency(caller: Caller, words: list[bytes]) -> Reply:
    if caller.keyspace.kind(caller.database, words[2]) is None:
        return None
    raise Failure(_NO_FREQUENCY)


def _usage(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) > 3:
        if len(words) != 5 or words[3].upper() != b"SAMPLES":
            raise Failure(SYNTAX)
        if as_int(words[4]) < 0:
            raise Failure(SYNTAX)
    keyspace, key = caller.keyspace, words[2]
    found = keyspace.held(caller.database, key)
    if found is None:
        return None
    kind, values = found
    if kind == "stream":
        return keyspace.stream(caller.database, key).info().size_bytes
    return len(key) + sum(map(len, values)) + _RECORD_BYTES


def _doctor(caller: Caller, _words: list[bytes]) -> Reply:
    text = "Streams are on disk here: MEMORY USAGE tells the bytes of a stream's files, and INFO those of the process."
    return report_of(text, caller.protocol)


def _purge(_caller: Caller, _words: list[bytes]) -> Reply:
    return OK


_READ = frozenset({"readonly"})


def _sub(name: str, arity: int, run: Run, since: str, summary: str) -> Command:
    keys = (0, 0, 0) if arity == 2 else (2, 2, 1)  # no more than both names
    group = "generic" if name.startswith("object") else "server"
    return Command(name, arity, run, _READ if keys[0] else frozenset(), keys, group, since, summary)


COMMANDS = (
    Command(
        "object",
        -2,
        None,
        group="generic",
        since="2.2.3",
        summary="A container for object introspection commands.",
        subcommands={
            "encoding": _sub("object|encoding", 3, _encoding, "2.2.3", "Returns the internal encoding of a key."),
            "freq": _sub("object|freq", 3, _frequency, "4.0.0", "Returns the access frequency index of a key."),
            "idletime": _sub("object|idletime", 3, _if_there(0), "2.2.3", "Returns the time since the last access."),
            "refcount": _sub("object|refcount", 3, _if_there(1), "2.2.3", "Returns the reference count of a key."),
            "help": help_of("object", _OBJECT_HELP, group="generic", since="6.2.0"),
        },
    ),
    Command(
        "memory",
        -2,
        None,
        group="server",
        since="4.0.0",
        summary="A container for memory diagnostics commands.",
        subcommands={
            "usage": _sub("memory|usage", -3, _usage, "4.0.0", "Estimates the size of a key: on disk, of a stream."),
            "doctor": _sub("memory|doctor", 2, _doctor, "4.0.0", "Outputs a report."),
            "purge": _sub("memory|purge", 2, _purge, "4.0.0", "Does nothing."),
            "help": help_of("memory", _MEMORY_HELP, group="server", since="4.0.0"),
        },
    ),
)
