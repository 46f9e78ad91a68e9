"""CLIENT: who is connected, and what a connection says of itself."""

import time
from collections.abc import Callable

from diskstream.commands.arguments import INT_MAX, Words, as_int, c_text
from diskstream.commands.caller import Buffers, Caller, Host
from diskstream.commands.failures import SYNTAX, misused
from diskstream.commands.help import help_lines
from diskstream.commands.replies import OK, Failure, Map, Raw, Reply
from diskstream.commands.table import Command
from diskstream.commands.wire import report_of, set_of

__all__ = ["COMMANDS", "as_client_name"]

_INVALID = "ERR Client names cannot contain spaces, newlines or special characters."
_NOT_TRACKING = (
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
)
_TYPES = (b"normal", b"master", b"replica", b"slave", b"pubsub")


def _is_plain(text: bytes) -> bool:
    return all(33 <= byte <= 126 for byte in text)  # ASCII that prints, without the blank


def as_client_name(word: bytes) -> bytes:
    """The name of a connection.

    Raises:
        Failure: it would spoil CLIENT LIST.
    """
    if not _is_plain(word):
        raise Failure(_INVALID)
    return word


def _host(caller: Caller) -> Host:
    if caller.host is None:
        raise Failure("ERR this needs a server: there are no other clients here")
    return caller.host


def _clients(caller: Caller) -> list[Caller]:
    return [caller] if caller.host is None else caller.host.clients()


def _line(client: Caller) -> str:
    now = time.monotonic()
    flags = ("x" if client.transaction is not None else "") + ("b" if client.waiting is not None else "")
    flags += ("e" if client.no_evict else "") + ("T" if client.no_touch else "")
    queued = -1 if client.transaction is None else len(client.transaction.queue)
    queued_bytes = 0 if client.transaction is None else client.transaction.size_bytes
    kept = Buffers() if client.host is None else client.host.buffers(client)
    parts = {
        "id": client.id,
        "addr": client.address,
        "laddr": client.local_address,
        "fd": kept.fd,
        "name": client.name.decode("latin-1"),
        "age": max(0, int(now - client.created)) if client.created else 0,
        "idle": max(0, int(now - client.last_used)) if client.last_used else 0,
        "flags": flags or "N",
        "db": client.database,
        "sub": 0,
        "psub": 0,
        "ssub": 0,
        "multi": queued,
        "watch": len(client.watched),
        "qbuf": kept.came_bytes,
        "qbuf-free": 0,
        "argv-mem": 0,
        "multi-mem": queued_bytes,
        "rbs": 0,
        "rbp": 0,
        "obl": 0,
        "oll": int(kept.unsent_bytes > 0),  # of one piece, whatever replies it holds
        "omem": kept.unsent_bytes,
        "tot-mem": kept.came_bytes + queued_bytes + kept.unsent_bytes,
        "events": "rw" if kept.unsent_bytes else "r",
        "cmd": client.last_command or "NULL",
        "user": client.user or "(superuser)",
        "redir": -1,
        "resp": client.protocol,
        "lib-name": client.library.decode("latin-1"),
        "lib-ver": client.library_version.decode("latin-1"),
    }
    return " ".join(f"{name}={value}" for name, value in parts.items())


def _id(caller: Caller, _words: list[bytes]) -> Reply:
    return caller.id


def _get_name(caller: Caller, _words: list[bytes]) -> Reply:
    return caller.name or None


def _set_name(caller: Caller, words: list[bytes]) -> Reply:
    caller.name = as_client_name(words[2])
    return OK


def _set_info(caller: Caller, words: list[bytes]) -> Reply:
    attribute = words[2].lower()
    if attribute not in (b"lib-name", b"lib-ver"):
        raise Failure(b"ERR Unrecognized option '%s'" % c_text(words[2][:128]))
    if not _is_plain(words[3]):
        raise Failure(f"ERR {attribute.decode()} cannot contain spaces, newlines or special characters.")
    if attribute == b"lib-name":
        caller.library = words[3]
    else:
        caller.library_version = words[3]
    return OK


def _info(caller: Caller, _words: list[bytes]) -> Reply:
    return report_of(_line(caller) + "\n", caller.protocol)


def _list(caller: Caller, words: list[bytes]) -> Reply:
    clients = _clients(caller)
    if len(words) == 4 and words[2].upper() == b"TYPE":
        kind = words[3].lower()
        if kind not in _TYPES:
            raise Failure(b"ERR Unknown client type '%s'" % c_text(words[3][:128]))
        clients = clients if kind == b"normal" else []
    elif len(words) > 3 and words[2].upper() == b"ID":
        wanted = {as_int(word, "ERR Invalid client ID") for word in words[3:]}
        clients = [client for client in clients if client.id in wanted]
    elif len(words) != 2:
        raise Failure(SYNTAX)
    return report_of("".join(_line(client) + "\n" for client in clients), caller.protocol)


# --- what ends, or holds back, a connection ---------------------------------------------------------------------------


def _test(name: bytes, word: bytes) -> Callable[[Caller], bool]:
    """What one option of CLIENT KILL asks of a client."""
    text = word.decode("latin-1")
    if name == b"ID":
        number = as_int(word, "ERR client-id should be greater than 0", least=1)
        return lambda client: client.id == number
    if name == b"ADDR":
        return lambda client: client.address == text
    if name == b"LADDR":
        return lambda client: client.local_address == text
    if name == b"TYPE":
        if word.lower() not in _TYPES:
            raise Failure(b"ERR Unknown client type '%s'" % c_text(word[:128]))
        return lambda _: text.lower() == "normal"
    if name == b"USER":
        if text != "default":
            raise Failure(b"ERR No such user '%s'" % c_text(word[:128]))
        return lambda client: client.user == text
    if name == b"MAXAGE":
        age = as_int(word, "ERR maxage is not an integer or out of range", least=1)
        return lambda client: time.monotonic() - client.created >= age
    raise Failure(SYNTAX)


def _filter(words: list[bytes]) -> tuple[list[Callable[[Caller], bool]], bool]:
    """What CLIENT KILL asks of a client, and whether the caller is spared."""
    wanted: list[Callable[[Caller], bool]] = []
    spares = True
    if len(words) % 2:
        raise Failure(SYNTAX)
    for option, word in zip(words[::2], words[1::2], strict=True):
        if option.upper() == b"SKIPME" and word.lower() in (b"yes", b"no"):
            spares = word.lower() == b"yes"
        else:
            wanted.append(_test(option.upper(), word))
    return wanted, spares


def _kill(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) == 3:  # the old form: an address
        address = words[2].decode("latin-1")
        found = [client for client in _clients(caller) if client.address == address]
        if not found:
            raise Failure("ERR No such client")
        _host(caller).kill(found[0])
        return OK
    wanted, spares = _filter(words[2:])
    found = [client for client in _clients(caller) if all(test(client) for test in wanted)]
    found = [client for client in found if client is not caller or not spares]
    for client in found:
        _host(caller).kill(client)
    return len(found)


def _unblock(caller: Caller, words: list[bytes]) -> Reply:
    reason = words[3].upper() if len(words) == 4 else b"TIMEOUT"
    if len(words) > 4:
        raise misused(words)
    if reason not in (b"TIMEOUT", b"ERROR"):
        raise Failure("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    number = as_int(words[2])
    client = None if caller.host is None else caller.host.client(number)
    if client is None or client.waiting is None:
        return 0
    return int(_host(caller).unblock(client, with_error=reason == b"ERROR"))


def _pause(caller: Caller, words: list[bytes]) -> Reply:
    mode = words[3].upper() if len(words) == 4 else b"ALL"
    if len(words) > 4:
        raise misused(words)
    if mode not in (b"ALL", b"WRITE"):
        raise Failure("ERR CLIENT PAUSE mode must be WRITE or ALL")
    wait_ms = as_int(words[2], "ERR timeout is not an integer or out of range")
    if wait_ms < 0:
        raise Failure("ERR timeout is negative")
    # There is no such moment; and nobody could end the pause, as UNPAUSE is held back, too.
    if wait_ms > INT_MAX - caller.keyspace.now_ms():
        raise Failure("ERR timeout is out of range")
    _host(caller).pause(time.monotonic() + wait_ms / 1000, writes_only=mode == b"WRITE")
    return OK


def _unpause(caller: Caller, _words: list[bytes]) -> Reply:
    _host(caller).pause(0.0, writes_only=False)
    return OK


def _reply(caller: Caller, words: list[bytes]) -> Reply:
    mode = words[2].lower()
    if mode not in (b"on", b"off", b"skip"):
        raise Failure(SYNTAX)
    if mode == b"skip" and caller.reply_mode == "off":
        return Raw(b"")
    caller.reply_mode = mode.decode()
    return OK if mode == b"on" else Raw(b"")


def _flag(word: bytes) -> bool:
    if word.lower() not in (b"on", b"off"):
        raise Failure(SYNTAX)
    return word.lower() == b"on"


def _no_evict(caller: Caller, words: list[bytes]) -> Reply:
    caller.no_evict = _flag(words[2])
    return OK


def _no_touch(caller: Caller, words: list[bytes]) -> Reply:
    caller.no_touch = _flag(words[2])
    return OK


def _tracking(caller: Caller, words: list[bytes]) -> Reply:
    left = Words(words, 3)
    while left:
        option = left.take_option()
        if option == b"REDIRECT" and left:
            number = as_int(left.take())
            if all(client.id != number for client in _clients(caller)):
                raise Failure("ERR The client ID you want redirect to does not exist")
        elif option == b"PREFIX" and left:
            left.take()
        elif option not in (b"BCAST", b"OPTIN", b"OPTOUT", b"NOLOOP"):
            raise Failure(SYNTAX)
    if _flag(words[2]):
        raise Failure("ERR client-side caching is not supported: nothing would tell a client what has changed")
    return OK


def _tracking_info(caller: Caller, _words: list[bytes]) -> Reply:
    return Map([("flags", set_of(["off"], caller.protocol)), ("redirect", -1), ("prefixes", [])])


def _caching(_caller: Caller, _words: list[bytes]) -> Reply:
    raise Failure(_NOT_TRACKING)


def _get_redirection(_caller: Caller, _words: list[bytes]) -> Reply:
    return -1


def _help(_caller: Caller, _words: list[bytes]) -> Reply:
    known = sorted(COMMANDS[0].subcommands)
    lines = ["CLIENT <subcommand> [<arg> ...]. Subcommands are:", *(name.upper() for name in known)]
    return help_lines(lines)


_PLAIN = frozenset({"noscript", "loading", "stale"})
_NONE, _GROUP = (0, 0, 0), "connection"
_ADMIN = _PLAIN | {"admin"}


_SUBCOMMANDS = {
    "id": Command(
        "client|id", 2, _id, _PLAIN, _NONE, _GROUP, "5.0.0", "Returns the unique client ID of the connection."
    ),
    "getname": Command(
        "client|getname", 2, _get_name, _PLAIN, _NONE, _GROUP, "2.6.9", "Returns the name of the connection."
    ),
    "setname": Command("client|setname", 3, _set_name, _PLAIN, _NONE, _GROUP, "2.6.9", "Sets the connection name."),
    "setinfo": Command(
        "client|setinfo",
        4,
        _set_info,
        _PLAIN,
        _NONE,
        _GROUP,
        "7.2.0",
        "Sets information specific to the client or connection.",
    ),
    "info": Command(
        "client|info", 2, _info, _PLAIN, _NONE, _GROUP, "6.2.0", "Returns information about the connection."
    ),
    "list": Command("client|list", -2, _list, _ADMIN, _NONE, _GROUP, "2.4.0", "Lists open connections."),
    "kill": Command("client|kill", -3, _kill, _ADMIN, _NONE, _GROUP, "2.4.0", "Terminates open connections."),
    "unblock": Command(
        "client|unblock",
        -3,
        _unblock,
        _ADMIN,
        _NONE,
        _GROUP,
        "5.0.0",
        "Unblocks a client blocked by a blocking command.",
    ),
    "pause": Command("client|pause", -3, _pause, _ADMIN, _NONE, _GROUP, "2.9.50", "Suspends commands processing."),
    "unpause": Command("client|unpause", 2, _unpause, _ADMIN, _NONE, _GROUP, "6.2.0", "Resumes processing commands."),
    "reply": Command(
        "client|reply", 3, _reply, _PLAIN, _NONE, _GROUP, "3.2.0", "Instructs the server whether to reply to commands."
    ),
    "no-evict": Command(
        "client|no-evict", 3, _no_evict, _ADMIN, _NONE, _GROUP, "7.0.0", "Sets the client eviction mode."
    ),
    "no-touch": Command(
        "client|no-touch",
        3,
        _no_touch,
        _PLAIN,
        _NONE,
        _GROUP,
        "7.2.0",
        "Controls whether commands affect the LRU/LFU of keys.",
    ),
    "tracking": Command(
        "client|tracking",
        -3,
        _tracking,
        _PLAIN,
        _NONE,
        _GROUP,
        "6.0.0",
        "Controls server-assisted client-side caching.",
    ),
    "trackinginfo": Command(
        "client|trackinginfo",
        2,
        _tracking_info,
        _PLAIN,
        _NONE,
        _GROUP,
        "6.2.0",
        "Returns information about server-assisted client-side caching for the connection.",
    ),
    "caching": Command(
        "client|caching",
        3,
        _caching,
        _PLAIN,
        _NONE,
        _GROUP,
        "6.0.0",
        "Instructs the server whether to track the keys in the next request.",
    ),
    "getredir": Command(
        "client|getredir",
        2,
        _get_redirection,
        _PLAIN,
        _NONE,
        _GROUP,
        "6.0.0",
        "Returns the client ID of tracking notifications.",
    ),
    "help": Command(
        "client|help",
        2,
        _help,
        _PLAIN - {"noscript"},
        _NONE,
        _GROUP,
        "5.0.0",
        "Returns helpful text about the different subcommands.",
    ),
}

COMMANDS = (
    Command(
        "client",
        -2,
        None,
        group="connection",
        since="2.4.0",
        summary="A container for client connection commands.",
        subcommands=_SUBCOMMANDS,
    ),
)
