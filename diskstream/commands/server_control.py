"""What an operator does to the whole: SAVE and its kin, WAIT, WAITAOF, SHUTDOWN, DEBUG."""

import hashlib
import logging
import threading
import time

from diskstream.commands.arguments import Words, as_int, c_text
from diskstream.commands.caller import Caller
from diskstream.commands.dumps import digest
from diskstream.commands.failures import SYNTAX, misused, no_key
from diskstream.commands.help import help_lines, help_of
from diskstream.commands.keyspace import DATABASES, Keyspace
from diskstream.commands.replies import OK, Failure, Raw, Reply, Status
from diskstream.commands.table import Command, Run
from diskstream.commands.waiting import Waiting
from diskstream.errors import ClosedError, DiskstreamError

__all__ = ["COMMANDS"]

_LOG = logging.getLogger("diskstream.server")


def _sync(caller: Caller) -> None:
    caller.keyspace.sync()
    caller.keyspace.statistics.saved = int(time.time())


def _save(caller: Caller, _words: list[bytes]) -> Reply:
    _sync(caller)
    return OK


def _save_behind(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) > 2 or (len(words) == 2 and words[1].upper() != b"SCHEDULE"):
        raise Failure(SYNTAX)
    _sync(caller)
    return Status(b"Background saving started")


def _compact(keyspace: Keyspace, database: int) -> None:
    """Seals and compacts a database; where its store is opened anew meanwhile, it goes on with that one."""
    while True:
        store = None
        try:
            store = keyspace.store(database)
            store.seal()
            store.compact()
            return
        except ClosedError:
            if not keyspace.is_open() or keyspace.store(database) is store:
                raise


def _rewrite(caller: Caller, _words: list[bytes]) -> Reply:
    """Compacts the streams of a database: in a thread where there is a server, whose loop must go on."""
    keyspace, database = caller.keyspace, caller.database
    keyspace.store(database)  # whether it can be opened is said at once

    def compact() -> None:
        failed = False
        try:
            _compact(keyspace, database)
        except DiskstreamError as error:
            failed = True  # INFO says so, and the log why
            _LOG.error("could not compact database %d: %s", database, error)  # expected
        finally:
            keyspace.statistics.compaction_failed = failed
            keyspace.compacting.release()

    if not keyspace.compacting.acquire(blocking=False):
        raise Failure("ERR Background append only file rewriting already in progress")
    if caller.host is None:
        compact()
    else:
        try:
            threading.Thread(target=compact, name="diskstream compaction", daemon=True).start()
        except RuntimeError as error:  # there are too many: the next one may find a place
            keyspace.compacting.release()
            raise Failure(f"ERR could not start a thread for the compaction: {error}") from error
    return Status(b"Background append only file rewriting started")


def _check_timeout(word: bytes) -> None:
    if as_int(word, "ERR timeout is not an integer or out of range") < 0:
        raise Failure("ERR timeout is negative")


def _wait(_caller: Caller, words: list[bytes]) -> Reply:
    """There are no replicas, and none will come: nothing to wait for."""
    as_int(words[1])
    _check_timeout(words[2])
    return 0


def _wait_durable(caller: Caller, words: list[bytes]) -> Reply:
    as_int(words[1], "ERR value is out of range, must be between 0 and 1", least=0, most=1)
    as_int(words[2], "ERR value is out of range, must be positive", least=0)
    _check_timeout(words[3])
    _sync(caller)
    return [1, 0]


def _shutdown(caller: Caller, words: list[bytes]) -> Reply:
    options = {word.upper() for word in words[1:]}
    if options - {b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"} or {b"NOSAVE", b"SAVE"} <= options:
        raise Failure(SYNTAX)
    if b"ABORT" in options:
        if len(options) > 1:
            raise Failure(SYNTAX)
        raise Failure("ERR No shutdown in progress.")
    if caller.host is None:
        raise Failure("ERR there is no server to shut down")
    try:
        _sync(caller)
    except (DiskstreamError, OSError) as error:
        if not options & {b"NOSAVE", b"FORCE"}:
            raise
        _LOG.warning("shutting down all the same: %s", error)
    caller.host.shut_down()
    return Raw(b"")


def _done(_caller: Caller, _words: list[bytes]) -> Reply:
    return OK


def _flush_scripts(_caller: Caller, words: list[bytes]) -> Reply:
    """Of scripts or functions there are none to be flushed."""
    if len(words) > 3 and words[0].upper() == b"FUNCTION":
        raise misused(words)
    if len(words) > 3 or any(word.upper() not in (b"SYNC", b"ASYNC") for word in words[2:]):
        name = words[0].upper()
        raise Failure(b"ERR %s FLUSH only support%s SYNC|ASYNC option" % (name, b"s" if name == b"FUNCTION" else b""))
    return OK


def _list_functions(_caller: Caller, words: list[bytes]) -> Reply:
    """There are none, of whatever library."""
    left, told = Words(words, 2), set[bytes]()
    while left:
        word = left.take()
        option = c_text(word).upper()
        if option not in (b"WITHCODE", b"LIBRARYNAME") or option in told:
            raise Failure(b"ERR Unknown argument %s" % c_text(word))
        told.add(option)
        if option == b"LIBRARYNAME" and not left:
            raise Failure("ERR library name argument was not given")
        if option == b"LIBRARYNAME":
            left.take()
    return []


# Redis's words.
_NO_DEBUG = (
    'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    "connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


# --- DEBUG ------------------------------------------------------------------------------------------------------------


def _reload(caller: Caller, _words: list[bytes]) -> Reply:
    caller.keyspace.reopen()
    return OK


def _sleep(_caller: Caller, words: list[bytes]) -> Reply:
    try:
        seconds = float(words[2])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:  # an hour: nobody means more
        raise Failure("ERR value is not a valid float")
    time.sleep(seconds)
    return OK


def _set_active_expire(caller: Caller, words: list[bytes]) -> Reply:
    caller.keyspace.sweeps = bool(as_int(words[2]))
    return OK


def _object(caller: Caller, words: list[bytes]) -> Reply:
    kind = caller.keyspace.kind(caller.database, words[2])
    if kind is None:
        raise no_key()
    return Status(f"Value at:0x0 refcount:1 encoding:{kind} serializedlength:0 lru:0 lru_seconds_idle:0".encode())


def _digest_of(caller: Caller, database: int, key: bytes) -> str:
    found = caller.keyspace.held(database, key)
    if found is None:
        return "0" * 40
    kind, values = found
    if kind == "stream":
        return digest(caller.keyspace.stream(database, key))
    return hashlib.sha1(repr((kind, values)).encode(), usedforsecurity=False).hexdigest()


def _digest_values(caller: Caller, words: list[bytes]) -> Reply:
    return [_digest_of(caller, caller.database, key) for key in words[2:]]


def _digest(caller: Caller, _words: list[bytes]) -> Reply:
    total = 0
    for database in range(DATABASES):
        for key in caller.keyspace.names(database):
            both = f"{database} {key!r} {_digest_of(caller, database, key)}"
            total ^= int(hashlib.sha1(both.encode(), usedforsecurity=False).hexdigest(), 16)
    return Status(f"{total:040x}".encode())


def _help(_caller: Caller, _words: list[bytes]) -> Reply:
    known = sorted(_DEBUG)
    lines = ["DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", *(name.upper() for name in known)]
    return help_lines(lines)


_NONE = (0, 0, 0)
_SAVE = frozenset({"admin", "no_async_loading", "noscript"})
_ADMIN = frozenset({"admin", "noscript", "loading", "stale"})


def _guarded(run: Run) -> Run:
    """What runs only where the server's file, or its command line, allows it: one DEBUG SLEEP holds up everybody."""

    def guarded(caller: Caller, words: list[bytes]) -> "Reply | Waiting":
        allowed = caller.keyspace.settings["enable-debug-command"]
        if caller.host is None or allowed == "yes" or (allowed == "local" and caller.is_local):
            return run(caller, words)
        raise Failure(_NO_DEBUG)

    return guarded


def _sub(name: str, arity: int, run: Run, summary: str) -> Command:
    return Command(f"debug|{name}", arity, _guarded(run), _ADMIN, group="server", since="1.0.0", summary=summary)


_DEBUG = {
    "reload": _sub("reload", -2, _reload, "Closes everything and opens it again from disk."),
    "loadaof": _sub("loadaof", 2, _reload, "Closes everything and opens it again from disk."),
    "sleep": _sub("sleep", 3, _sleep, "Does nothing for some seconds, and lets nobody else do anything."),
    "set-active-expire": _sub("set-active-expire", 3, _set_active_expire, "Switches the sweep of expired keys."),
    "object": _sub("object", -3, _object, "Says how a key is kept."),
    "digest": _sub("digest", 2, _digest, "A digest of everything."),
    "digest-value": _sub("digest-value", -2, _digest_values, "A digest of each key."),
    "jmap": _sub("jmap", 2, _done, "Does nothing."),
    "help": _sub("help", 2, _help, "Returns helpful text about the different subcommands."),
}


def _container(name: str, since: str, below: dict[str, tuple[int, Run]], shown: str) -> Command:
    """FUNCTION or SCRIPT: there are no scripts, so none is flushed."""
    subcommands = {
        key: Command(f"{name}|{key}", arity, run, frozenset({"noscript"}), group="scripting", since=since)
        for key, (arity, run) in below.items()
    }
    subcommands["help"] = help_of(name, shown, group="scripting")
    summary = "A container for what clients ask of scripts; there are none."
    return Command(name, -2, None, group="scripting", since=since, summary=summary, subcommands=subcommands)


COMMANDS = (
    Command("save", 1, _save, _SAVE | {"no_multi"}, _NONE, "server", "1.0.0", "Makes everything durable."),
    Command("bgsave", -1, _save_behind, _SAVE, _NONE, "server", "1.0.0", "Makes everything durable."),
    Command(
        "bgrewriteaof", 1, _rewrite, _SAVE, _NONE, "server", "1.0.0", "Compacts the streams of the selected database."
    ),
    Command(
        "shutdown",
        -1,
        _shutdown,
        _ADMIN | {"no_multi", "allow_busy"},
        _NONE,
        "server",
        "1.0.0",
        "Makes everything durable and shuts down.",
    ),
    Command(
        "wait", 3, _wait, frozenset({"noscript"}), group="generic", since="3.0.0", summary="Waits for replicas: none."
    ),
    Command(
        "waitaof",
        4,
        _wait_durable,
        frozenset({"noscript"}),
        group="generic",
        since="7.2.0",
        summary="Waits for what is written to be durable.",
    ),
    Command(
        "debug",
        -2,
        None,
        _ADMIN,
        group="server",
        since="1.0.0",
        summary="A container for debugging.",
        subcommands=_DEBUG,
    ),
    _container("function", "7.0.0", {"flush": (-2, _flush_scripts), "list": (-2, _list_functions)}, "FLUSH\nLIST"),
    _container("script", "2.6.0", {"flush": (-2, _flush_scripts)}, "FLUSH"),
)
