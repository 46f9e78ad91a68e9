"""A slow wire and a few commands in plain Python: the server is tested with them where the real ones are not there."""

import time
from collections.abc import Callable

from diskstream import Delivery, Entry, EntryID
from diskstream.commands.caller import Caller
from diskstream.commands.failures import no_group
from diskstream.commands.replies import OK, ErrorReply, Failure, Map, NilArray, Raw, Reply, Status
from diskstream.commands.table import Command, Table, call, find, table_of
from diskstream.commands.waiting import Waiting
from diskstream.server.parts import Parts


class SlowParser:
    """Arrays of bulk strings, and words on a line."""

    def __init__(self, max_bulk_bytes: int = 512 << 20, max_query_bytes: int = 1 << 30, runs: bool = False) -> None:
        self._data = b""
        self.limit_passed = self.held_back = False
        self._max_bulk, self._max_query = max_bulk_bytes, max_query_bytes
        self.error: bytes | None = None

    @property
    def buffered_bytes(self) -> int:
        return len(self._data)

    def feed(self, data: bytes, authenticated: bool = True) -> list[list[bytes]]:
        self._data += data
        found: list[list[bytes]] = []
        while self.error is None and (command := self._next()) is not None:
            if command:
                found.append(command)
        if len(self._data) > self._max_query:
            self.limit_passed = True
        return found

    def _line(self, at: int) -> tuple[bytes, int] | None:
        end = self._data.find(b"\n", at)
        return None if end < 0 else (self._data[at:end].rstrip(b"\r"), end + 1)

    def _next(self) -> list[bytes] | None:
        first = self._line(0)
        if first is None:
            return None
        line, at = first
        if not line.startswith(b"*"):
            self._data = self._data[at:]
            return line.split()
        words: list[bytes] = []
        for _ in range(int(line[1:])):
            header = self._line(at)
            if header is None:
                return None
            size, at = header
            if not size.startswith(b"$"):
                self.error = b"ERR Protocol error: expected '$', got '%s'" % size[:1]
                return None
            if int(size[1:]) > self._max_bulk:
                self.error = b"ERR Protocol error: invalid bulk length"
                return None
            end = at + int(size[1:])
            if len(self._data) < end + 2:
                return None
            words.append(self._data[at:end])
            at = end + 2
        self._data = self._data[at:]
        return words


def encode(replies: list[Reply], *, resp3: bool) -> bytes:
    return b"".join(_encoded(reply, resp3) for reply in replies)


def _encoded(reply: Reply, resp3: bool) -> bytes:
    match reply:
        case None:
            return b"_\r\n" if resp3 else b"$-1\r\n"
        case NilArray():
            return b"_\r\n" if resp3 else b"*-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case Status():
            return b"+%s\r\n" % reply.text
        case ErrorReply():
            return b"-%s\r\n" % reply.text
        case Raw():
            return reply.data
        case str() | EntryID():
            return _encoded(str(reply).encode(), resp3)
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(reply), reply)
        case Map():
            sign, count = (b"%", len(reply.pairs)) if resp3 else (b"*", 2 * len(reply.pairs))
            return sign + b"%d\r\n" % count + b"".join(_encoded(each, resp3) for pair in reply.pairs for each in pair)
        case Entry() | Delivery():
            return _encoded([reply.id, [each for pair in reply.pairs for each in pair]], resp3)
        case _:
            return b"*%d\r\n" % len(reply) + b"".join(_encoded(each, resp3) for each in reply)


def dispatch(table: Table, caller: Caller, words: list[bytes]) -> Reply:
    try:
        command = find(table, words)
    except Failure as failure:
        return ErrorReply(failure.text)
    if caller.user is None and command.name not in ("auth", "quit"):
        return ErrorReply(b"NOAUTH Authentication required.")
    caller.last_command = command.name
    return call(command, caller, words)


def _xadd(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) % 2 == 0:
        raise Failure("ERR wrong number of arguments for 'xadd' command")
    pairs = list(zip(words[3::2], words[4::2], strict=True))
    return caller.keyspace.stream(caller.database, words[1]).add(pairs, words[2])


def _xrange(caller: Caller, words: list[bytes]) -> Reply:
    return list(caller.keyspace.stream(caller.database, words[1]).range(words[2], words[3]))


def _reading(caller: Caller, words: list[bytes], look: Callable[[bytes, bytes], list[Entry]]) -> Reply:
    upper = [word.upper() for word in words]
    at = upper.index(b"STREAMS") + 1
    half = (len(words) - at) // 2
    keys = words[at : at + half]
    after = dict(zip(keys, words[at + half :], strict=True))
    for key, position in after.items():
        if position == b"$":
            after[key] = str(caller.keyspace.stream(caller.database, key).last_id()).encode()

    def again() -> Reply | None:
        found = [[key, entries] for key in keys if (entries := look(key, after[key]))]
        return found or None

    reply = again()
    if reply is not None or b"BLOCK" not in upper:
        return reply
    block = int(words[upper.index(b"BLOCK") + 1])
    return Waiting(caller.database, tuple(keys), time.monotonic() + block / 1000 if block else None, again)


def _xread(caller: Caller, words: list[bytes]) -> Reply:
    return _reading(caller, words, lambda key, after: caller.keyspace.stream(caller.database, key).read(after))


def _xreadgroup(caller: Caller, words: list[bytes]) -> Reply:
    def look(key: bytes, after: bytes) -> list[Entry]:
        stream = caller.keyspace.stream(caller.database, key)
        group = stream.group(words[2], create=False)
        if not group.exists():
            raise no_group(key, words[2])
        return list(group.consumer(words[3]).read(count=1))

    return _reading(caller, words, look)


def _xgroup(caller: Caller, words: list[bytes]) -> Reply:
    stream = caller.keyspace.stream(caller.database, words[2])
    if words[1].upper() == b"CREATE":
        stream.group(words[3], start=words[4])
        return OK
    return int(stream.group(words[3], create=False).destroy())


def _auth(caller: Caller, words: list[bytes]) -> Reply:
    if words[1] != b"secret":
        raise Failure("WRONGPASS invalid username-password pair or user is disabled.")
    caller.user = "default"
    return OK


def _select(caller: Caller, words: list[bytes]) -> Reply:
    caller.database = int(words[1])
    return OK


def _hello(caller: Caller, words: list[bytes]) -> Reply:
    caller.protocol = int(words[1])
    return Map([(b"proto", caller.protocol)])


def _quit(caller: Caller, words: list[bytes]) -> Reply:
    assert caller.host is not None
    caller.host.kill(caller)
    return OK


def _shutdown(caller: Caller, words: list[bytes]) -> Reply:
    assert caller.host is not None
    caller.host.shut_down()
    return OK


def _client(caller: Caller, words: list[bytes]) -> Reply:
    host = caller.host
    assert host is not None
    match words[1].upper(), *words[2:]:
        case b"ID", *_:
            return caller.id
        case b"UNBLOCK", wanted, *how:
            found = [each for each in host.clients() if each.id == int(wanted)]
            return int(bool(found) and host.unblock(found[0], with_error=how == [b"ERROR"]))
        case b"KILL", b"ID", wanted:
            found = [each for each in host.clients() if each.id == int(wanted)]
            for each in found:
                host.kill(each)
            return len(found)
        case b"PAUSE", timeout, *mode:
            host.pause(time.monotonic() + int(timeout) / 1000, writes_only=mode == [b"WRITE"])
            return OK
        case b"UNPAUSE", *_:
            host.pause(0.0, writes_only=False)
            return OK
        case b"REPLY", mode:
            caller.reply_mode = mode.decode().lower()
            return OK
    raise Failure("ERR syntax error")


def _config(caller: Caller, words: list[bytes]) -> Reply:
    assert caller.host is not None
    wrong = caller.host.set_setting(words[2].decode(), words[3].decode())
    if wrong is not None:
        raise Failure(f"ERR CONFIG SET failed (possibly related to argument '{words[2].decode()}') - {wrong}")
    return OK


_WRITE = frozenset({"write"})
_WAITS = frozenset({"write", "blocking"})
TABLE = table_of(
    [
        Command("ping", -1, lambda caller, words: words[1] if len(words) > 1 else Status(b"PONG")),
        Command("echo", 2, lambda caller, words: words[1]),
        Command("auth", 2, _auth),
        Command("quit", 1, _quit),
        Command("hello", -1, _hello),
        Command("select", 2, _select),
        Command("shutdown", -1, _shutdown),
        Command("client", -2, _client),
        Command("config", 4, _config),
        Command("xadd", -5, _xadd, _WRITE, (1, 1, 1)),
        Command("xlen", 2, lambda caller, words: len(caller.keyspace.stream(caller.database, words[1]))),
        Command("xrange", 4, _xrange),
        Command("xread", -4, _xread, frozenset({"blocking"})),
        Command("xreadgroup", -7, _xreadgroup, _WAITS),
        Command("xgroup", -4, _xgroup, _WRITE, (2, 2, 1)),
        Command("del", 2, lambda caller, words: int(caller.store.delete(words[1])), _WRITE, (1, 1, 1)),
    ]
)


def stand_ins() -> Parts:
    """The parts made of what is above."""
    return Parts(TABLE, dispatch, SlowParser, encode)
