"""XGROUP: making, moving and removing groups and consumers."""

from diskstream._native import EntryID
from diskstream.commands.arguments import Words
from diskstream.commands.caller import Caller
from diskstream.commands.failures import c_text, misused
from diskstream.commands.help import help_of
from diskstream.commands.id_words import as_id, as_id_or_bound
from diskstream.commands.replies import OK, Failure, Reply
from diskstream.commands.table import Command
from diskstream.errors import XGROUP_NEEDS_STREAM, NoSuchStreamError
from diskstream.group import Group
from diskstream.ids import IDLike

__all__ = ["COMMANDS"]

_HELP = """\
CREATE <key> <groupname> <id|$> [option]
    Create a new consumer group. Options are:
    * MKSTREAM
      Create the empty stream if it does not exist.
    * ENTRIESREAD entries_read
      Set the group's entries_read counter (internal use).
CREATECONSUMER <key> <groupname> <consumer>
    Create a new consumer in the specified group.
DELCONSUMER <key> <groupname> <consumer>
    Remove the specified consumer.
DESTROY <key> <groupname>
    Remove the specified group.
SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]
    Set the current group ID and entries_read counter."""
# Words, of which none says more than those before it: an option may not come a second time beside all the others.
_MOST_TO_CREATE, _MOST_TO_SET_ID = 8, 7


def _options(given: list[bytes], *, creating: bool) -> tuple[bool, int | None]:
    """Whether to make the stream, and how many entries were read."""
    words, mkstream, entries_read = Words(given, 5), False, None
    while words:
        option = words.take_option()
        if option == b"MKSTREAM" and creating:
            mkstream = True
        elif option == b"ENTRIESREAD" and words:
            entries_read = words.take_int()
            if entries_read < -1:
                raise Failure("ERR value for ENTRIESREAD must be positive or -1")
        else:
            raise misused(given)
    return mkstream, entries_read


def _group(caller: Caller, given: list[bytes], *, must_be: bool) -> Group:
    """The group that the words name.

    Raises:
        Failure: there is no stream, or no group where there `must_be` one.
    """
    key, name = given[2], given[3]
    stream = caller.keyspace.stream(caller.database, key)
    if not stream.exists():
        raise Failure(f"ERR {XGROUP_NEEDS_STREAM}")
    group = stream.group(name, create=False)
    if must_be and not group.exists():
        raise Failure(b"NOGROUP No such consumer group '%s' for key name '%s'" % (c_text(name), c_text(key)))
    return group


def _create(caller: Caller, given: list[bytes]) -> Reply:
    mkstream, entries_read = _options(given, creating=True)
    stream = caller.keyspace.stream(caller.database, given[2])
    if not mkstream and not stream.exists():
        raise Failure(f"ERR {XGROUP_NEEDS_STREAM}")
    if len(given) > _MOST_TO_CREATE:
        raise misused(given)
    start: IDLike = "$" if c_text(given[4]) == b"$" else as_id(given[4])
    try:
        stream.create_group(given[3], start, mkstream=mkstream, entries_read=entries_read)
    except NoSuchStreamError:
        raise Failure(f"ERR {XGROUP_NEEDS_STREAM}") from None
    return OK


def _set_id(caller: Caller, given: list[bytes]) -> Reply:
    _, entries_read = _options(given, creating=False)
    group = _group(caller, given, must_be=True)
    if len(given) > _MOST_TO_SET_ID:
        raise misused(given)
    # Of ``-`` and ``+`` CREATE knows nothing.
    start: str | EntryID = "$" if c_text(given[4]) == b"$" else as_id_or_bound(given[4])
    group.set_id(start, entries_read=entries_read)
    return OK


def _destroy(caller: Caller, given: list[bytes]) -> Reply:
    return int(_group(caller, given, must_be=False).destroy())


def _create_consumer(caller: Caller, given: list[bytes]) -> Reply:
    return int(_group(caller, given, must_be=True).create_consumer(given[4]))


def _delete_consumer(caller: Caller, given: list[bytes]) -> Reply:
    return _group(caller, given, must_be=True).delete_consumer(given[4])


_WRITE = frozenset({"write"})
_KEY = (2, 2, 1)
_BELOW = (
    Command("xgroup|create", -5, _create, _WRITE | {"denyoom"}, _KEY, summary="Makes a group."),
    Command(
        "xgroup|createconsumer",
        5,
        _create_consumer,
        _WRITE | {"denyoom"},
        _KEY,
        since="6.2.0",
        summary="Makes a consumer.",
        ends_waits=False,
    ),
    Command("xgroup|delconsumer", 5, _delete_consumer, _WRITE, _KEY, summary="Removes a consumer.", ends_waits=False),
    Command("xgroup|destroy", 4, _destroy, _WRITE, _KEY, summary="Removes a group."),
    Command("xgroup|setid", -5, _set_id, _WRITE, _KEY, summary="Sets the last delivered ID of a group."),
    help_of("xgroup", _HELP),
)
COMMANDS = (
    Command(
        "xgroup",
        -2,
        None,
        summary="Groups and their consumers.",
        subcommands={each.name.partition("|")[2]: each for each in _BELOW},
    ),
)
