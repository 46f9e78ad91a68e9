"""Commands on the connection itself: HELLO, PING, ECHO, SELECT, RESET, QUIT."""

from diskstream.commands.access import authenticate, sign_out
from diskstream.commands.arguments import as_int, as_small_int, c_text
from diskstream.commands.caller import Caller
from diskstream.commands.clients import as_client_name
from diskstream.commands.keyspace import DATABASES
from diskstream.commands.replies import OK, Failure, Map, Reply, Status
from diskstream.commands.server_info import REDIS_VERSION
from diskstream.commands.table import Command

__all__ = ["COMMANDS"]

_HELLO_FIRST = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> "
    "option can be used to authenticate the client and select the RESP protocol version at the same time"
)


def _hello(caller: Caller, words: list[bytes]) -> Reply:
    protocol = caller.protocol
    if len(words) > 1:
        protocol = as_int(words[1], "ERR Protocol version is not an integer or out of range")
        if protocol not in (2, 3):
            raise Failure("NOPROTO unsupported protocol version")
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 2
    while at < len(words):
        option, left = words[at].upper(), len(words) - at - 1
        if option == b"AUTH" and left >= 2:  # user and password
            login = words[at + 1], words[at + 2]
            at += 3
        elif option == b"SETNAME" and left:
            name = as_client_name(words[at + 1])
            at += 2
        else:
            raise Failure(b"ERR Syntax error in HELLO option '%s'" % c_text(words[at][:128]))
    if login is not None:
        authenticate(caller, *login)
    if caller.user is None:
        raise Failure(_HELLO_FIRST)
    if name is not None:
        caller.name = name
    caller.protocol = protocol
    return Map(
        [
            ("server", "redis"),
            ("version", REDIS_VERSION),
            ("proto", protocol),
            ("id", caller.id),
            ("mode", "standalone"),
            ("role", "master"),
            ("modules", []),
        ]
    )


def _ping(_caller: Caller, words: list[bytes]) -> Reply:
    if len(words) > 2:
        raise Failure("ERR wrong number of arguments for 'ping' command")
    return words[1] if len(words) > 1 else Status(b"PONG")


def _echo(_caller: Caller, words: list[bytes]) -> Reply:
    return words[1]


def _select(caller: Caller, words: list[bytes]) -> Reply:
    database = as_small_int(words[1])
    if not 0 <= database < DATABASES:
        raise Failure("ERR DB index is out of range")
    caller.database = database
    return OK


def _reset(caller: Caller, _words: list[bytes]) -> Reply:
    caller.transaction = None
    caller.watched.clear()
    caller.database, caller.protocol, caller.name = 0, 2, b""
    if caller.reply_mode != "skipping":  # SKIP was for this one
        caller.reply_mode = "on"
    caller.no_evict = caller.no_touch = False
    sign_out(caller)
    return Status(b"RESET")


def _quit(caller: Caller, _words: list[bytes]) -> Reply:
    if caller.host is not None:
        caller.host.kill(caller)
    return OK


_NONE = (0, 0, 0)
_FAST = frozenset({"fast"})
_ANYONE = frozenset({"fast", "loading", "no_auth", "noscript", "stale", "allow_busy"})


COMMANDS = (
    Command("hello", -1, _hello, _ANYONE, _NONE, "connection", "6.0.0", "Handshakes with the server."),
    Command("ping", -1, _ping, _FAST, _NONE, "connection", "1.0.0", "Returns the server's liveliness response."),
    Command("echo", 2, _echo, _FAST | {"loading", "stale"}, _NONE, "connection", "1.0.0", "Returns the given string."),
    Command(
        "select",
        2,
        _select,
        _FAST | {"loading", "stale"},
        _NONE,
        "connection",
        "1.0.0",
        "Changes the selected database.",
    ),
    Command("reset", 1, _reset, _ANYONE, _NONE, "connection", "6.2.0", "Resets the connection."),
    Command("quit", -1, _quit, _ANYONE, _NONE, "connection", "1.0.0", "Closes the connection."),
)
