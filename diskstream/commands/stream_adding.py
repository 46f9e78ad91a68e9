"""Commands that add to a stream, trim it, delete from it, and set what it remembers: XADD and its like."""

from typing import Any

from diskstream.commands.arguments import Words
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX, no_key
from diskstream.commands.id_words import as_add_id, as_id
from diskstream.commands.replies import OK, Failure, Reply
from diskstream.commands.stream_options import REFS, Trimming, counted_ids
from diskstream.commands.table import Command
from diskstream.errors import ArgumentError, IDExhaustedError, ZeroIDError
from diskstream.ids import MIN_ID, EntryID
from diskstream.stream import Stream

__all__ = ["COMMANDS", "ids_with_references"]

_WINDOWS = {b"IDMP-DURATION": ("duration_s", 86_400, "seconds"), b"IDMP-MAXSIZE": ("max_size", 10_000, "entries")}


def _arity(name: str) -> Failure:
    return Failure(f"ERR wrong number of arguments for '{name}' command")


def _stream(caller: Caller, key: bytes) -> Stream:
    return caller.keyspace.stream(caller.database, key)


def _existing(caller: Caller, key: bytes) -> Stream:
    stream = _stream(caller, key)
    if not stream.exists():
        raise no_key()
    return stream


def _producer(words: Words, given: dict[str, Any]) -> None:
    option = words.take_option().decode()
    if given:
        raise Failure("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
    given["producer"] = words.take()
    if not given["producer"]:
        raise Failure(f"ERR syntax error, {option} requires a non-empty producer ID")
    if option == "IDMP":
        given["message_id"] = words.take()
        if not given["message_id"]:
            raise Failure("ERR syntax error, IDMP requires a non-empty idempotent ID")


def _xadd(caller: Caller, given: list[bytes]) -> Reply:
    words = Words(given, 2)
    trimming, producer, nomkstream = Trimming(), dict[str, Any](), False
    while words and words.option() != b"*":
        if trimming.take(words):
            continue
        if words.option() == b"NOMKSTREAM":
            words.take()
            nomkstream = True
        elif (words.option() == b"IDMPAUTO" and words.left > 1) or (words.option() == b"IDMP" and words.left > 2):
            _producer(words, producer)
        else:
            break
    entry_id = as_add_id(words.take()) if words else None
    trimming.check()
    if entry_id is None:
        raise _arity("xadd")
    if producer and entry_id != b"*":
        raise Failure("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
    fields = words.rest()
    if len(fields) < 2 or len(fields) % 2:  # names and values
        raise _arity("xadd")
    if entry_id == MIN_ID:
        raise Failure(f"ERR {ZeroIDError()}")  # whatever the key is
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    stream = _stream(caller, given[1])
    try:
        return stream.add(pairs, entry_id, nomkstream=nomkstream, **producer, **trimming.given)
    except IDExhaustedError:
        raise Failure("ERR The stream has exhausted the last possible ID, unable to add more items") from None


def _xtrim(caller: Caller, given: list[bytes]) -> Reply:
    words = Words(given, 2)
    trimming = Trimming()
    while words:
        if not trimming.take(words):
            raise Failure(SYNTAX)
    trimming.check(must_trim=True)
    return _stream(caller, given[1]).trim(**trimming.given)


def _xlen(caller: Caller, given: list[bytes]) -> Reply:
    return len(_stream(caller, given[1]))


def _xdel(caller: Caller, given: list[bytes]) -> Reply:
    stream = _stream(caller, given[1])
    if not stream.exists():
        return 0
    return stream.delete(*[as_id(word) for word in given[2:]])


def ids_with_references(words: Words) -> tuple[list[EntryID], str]:
    """What stands behind the key, or the group, of XDELEX and XACKDEL: IDs, and what becomes of references to them.

    Raises:
        Failure: it is not that.
    """
    ref, ids = "", list[EntryID]()
    while words:
        if words.option() in REFS and not ref:
            ref = words.take_option().decode()
        elif words.option() == b"IDS" and not ids:
            ids = counted_ids(
                words,
                count_error="ERR Number of IDs must be a positive integer",
                match_error="ERR The `numids` parameter must match the number of arguments",
            )
            if words and words.option() not in REFS:
                raise Failure("ERR The `numids` parameter must match the number of arguments")
        else:
            raise Failure(SYNTAX)
    if not ids:
        raise Failure("ERR IDS option is required")
    return ids, ref or "KEEPREF"


def _xdelex(caller: Caller, given: list[bytes]) -> Reply:
    stream = _stream(caller, given[1])
    ids, ref = ids_with_references(Words(given, 2))
    return stream.delete_entries(*ids, ref=ref)


def _xsetid(caller: Caller, given: list[bytes]) -> Reply:
    last = as_id(given[2])
    words, added, deleted = Words(given, 3), None, None
    while words:
        if words.option() == b"ENTRIESADDED" and words.left > 1:
            words.take()
            added = words.take_int()
            if added < 0:
                raise Failure("ERR entries_added must be positive")
        elif words.option() == b"MAXDELETEDID" and words.left > 1:
            words.take()
            deleted = as_id(words.take())
            if last < deleted:
                raise Failure("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise Failure(SYNTAX)
    stream = _existing(caller, given[1])
    if not caller.keyspace.ids_set.set(stream, last, added, MIN_ID if deleted is None else deleted):
        raise no_key()
    return OK


def _xcfgset(caller: Caller, given: list[bytes]) -> Reply:
    words, windows = Words(given, 2), dict[str, int]()
    while words:
        option = words.take_option()
        if option not in _WINDOWS or not words:
            raise Failure(SYNTAX)
        name, most, unit = _WINDOWS[option]
        if name in windows:
            raise Failure(f"ERR {option.decode()} specified multiple times")
        error = f"ERR {option.decode()} must be between 1 and {most} {unit}"
        windows[name] = words.take_int(least=-(2**63))
        if not 1 <= windows[name] <= most:
            raise Failure(error)
    if not windows:
        raise Failure("ERR At least one parameter must be specified")
    _existing(caller, given[1]).configure_idempotence(
        duration_s=windows.get("duration_s"), max_size=windows.get("max_size")
    )
    return OK


def _xidmprecord(caller: Caller, given: list[bytes]) -> Reply:
    _, key, producer, message, word = given
    if not producer:
        raise Failure("ERR producer ID must be non-empty")
    if not message:
        raise Failure("ERR idempotent ID must be non-empty")
    entry_id = as_id(word)
    try:
        _existing(caller, key).record_idempotent(producer, message, entry_id)
    except ArgumentError as error:
        raise Failure(f"ERR {str(error).partition(':')[0]}") from None
    return OK


_WRITE = frozenset({"write", "fast"})
COMMANDS = (
    Command(
        "xadd", -5, _xadd, _WRITE | {"denyoom"}, (1, 1, 1), summary="Appends an entry. Makes the stream where needed."
    ),
    Command(
        "xtrim",
        -4,
        _xtrim,
        frozenset({"write"}),
        (1, 1, 1),
        summary="Removes entries from a stream's beginning.",
        ends_waits=False,
    ),
    Command("xlen", 2, _xlen, frozenset({"readonly", "fast"}), (1, 1, 1), summary="How many entries a stream has."),
    Command(
        "xdel", -3, _xdel, _WRITE, (1, 1, 1), summary="Deletes entries. Returns how many there were.", ends_waits=False
    ),
    Command(
        "xdelex",
        -5,
        _xdelex,
        _WRITE,
        (1, 1, 1),
        since="8.2.0",
        summary="Deletes entries, with an eye on groups.",
        ends_waits=False,
    ),
    Command("xsetid", -3, _xsetid, _WRITE | {"denyoom"}, (1, 1, 1), summary="Sets the last ID, and what goes with it."),
    Command("xcfgset", -2, _xcfgset, _WRITE, (1, 1, 1), since="8.6.0", summary="Sets the windows of idempotence."),
    Command(
        "xidmprecord", 5, _xidmprecord, _WRITE, (1, 1, 1), since="8.6.2", summary="Remembers a producer's message."
    ),
)
