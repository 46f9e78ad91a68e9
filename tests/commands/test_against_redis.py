"""The commands around the streams: each story is told to us and to a Redis server, and every reply compared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours, Theirs
from tests.conftest import RedisServer


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[Theirs]:
    connection = Theirs(redis_server.host, redis_server.port)
    yield connection
    connection.run("RESET")
    connection.run("CONFIG SET requirepass ''")
    connection.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ours]:
    with Keyspace(tmp_path / "data") as keyspace:
        yield Ours(keyspace)


STORIES = {
    "strings": """
        SET a 1
        GET a
        SET a 2 NX
        SET b 2 XX
        SET a 3 GET
        SET a 4 XX
        SET a 5 EX 0
        SET a 5 EX x
        SET a 5 NX XX
        SET a 5 XX EX 0 NX
        SET a 5 EX x EX 0 GET
        SET a 5 EX 0 PX x
        SET none 5 XX EX 0 EX 30
        SET none 5 XX PX 9223372036854775807 PX 9007199254740992
        SET none 5 XX PX 9007199254740992
        SET none 5 XX EX 9223372036854775807
        SET none 5 XX PX 9223372036854775807
        SET none 5 EX
        SET none 5 XX EXAT GET
        SET a 5 FOO
        SET a 5 EX
        GET none
        INCR a
        INCR b
        SET t text
        INCR t
        OBJECT ENCODING a
        OBJECT ENCODING t
        SET a 6 EX 100
        TTL a
        SET a 7 KEEPTTL
        TTL a
        SET a 8
        TTL a
        GET""",
    "lists and sets": """
        RPUSH l a b c
        LPUSH l z y
        LRANGE l 0 -1
        LRANGE l -2 -1
        LRANGE l 5 9
        LRANGE l -100 1
        LRANGE l 0 x
        LLEN l
        LPOP l
        RPOP l
        LPOP l 9
        LPOP l
        LPOP l 2
        EXISTS l
        SADD s a b a
        SADD s b
        SCARD s
        SREM s a none
        SMEMBERS s
        SREM s b
        EXISTS s
        SMEMBERS s
        SET x 1
        LPUSH x a
        SADD x a
        LRANGE x 0 -1
        BLPOP x 0
        BLPOP none x
        BLPOP none -1
        RPUSH l 1
        BLPOP none l 0
        GET x
        LPUSH l""",
    "keys": """
        SET a 1
        SET b 2
        RPUSH l 1
        TYPE a
        TYPE l
        TYPE none
        EXISTS a b a none
        TOUCH a none
        DBSIZE
        KEYS a*
        KEYS [b-z]
        KEYS [^b]
        KEYS ?
        KEYS \\\\a
        KEYS x
        RENAME a c
        RENAME a c
        RENAME c c
        RENAMENX c b
        RENAMENX c d
        RENAMENX none d
        RENAME d l
        TYPE l
        UNLINK l none
        DEL b b
        DBSIZE
        RANDOMKEY
        DEL
        RENAME a
        KEYS""",
    "times of expiry": """
        EXPIRE none 100
        TTL none
        PTTL none
        SET a 1
        TTL a
        EXPIRETIME a
        EXPIRE a 100
        TTL a
        EXPIRE a 50 NX
        EXPIRE a 50 GT
        EXPIRE a 200 GT
        TTL a
        EXPIRE a 50 LT
        TTL a
        EXPIRE a 60 XX
        TTL a
        EXPIRE a 70 XX GT
        PERSIST a
        PERSIST a
        EXPIRE a 60 XX
        EXPIRE a 60 GT
        EXPIRE a 60 LT
        EXPIREAT a 33177117420
        EXPIRETIME a
        PEXPIRETIME a
        PEXPIREAT a 33177117420001
        PEXPIRETIME a
        RENAME a b
        PEXPIRETIME b
        PEXPIRETIME a
        COPY b c
        PEXPIRETIME c
        MOVE c 3
        SELECT 3
        PEXPIRETIME c
        SELECT 0
        EXPIRE b x
        EXPIRE b 10 NX XX
        EXPIRE b 10 GT LT
        EXPIRE b 10 FOO
        EXPIRE b 9223372036854775807
        PEXPIRE b 9223372036854775807
        EXPIRE b -1
        EXISTS b
        EXPIRE none 1 FOO
        TTL""",
    "databases": """
        SELECT x
        SELECT 99
        SELECT -1
        SELECT 3
        SET a 3
        SELECT 0
        SET a 0
        SET b 0
        MOVE a 3
        MOVE b 3
        MOVE b 3
        MOVE a 0
        MOVE a x
        MOVE a 99
        SWAPDB 0 3
        GET a
        GET b
        SWAPDB x 0
        SWAPDB 0 x
        SWAPDB 0 99
        COPY a a
        COPY a c
        COPY a c
        COPY a c REPLACE
        COPY a c DB 5
        COPY a a DB 5
        COPY a c DB 99
        COPY a c DB x
        COPY a c FOO
        COPY none c REPLACE
        SELECT 5
        GET c
        FLUSHDB ASYNC
        DBSIZE
        SELECT 0
        DBSIZE
        FLUSHDB foo
        FLUSHALL
        DBSIZE
        SELECT 3
        DBSIZE""",
    "scans": """
        SCAN 0
        SET a 1
        SCAN 0
        SCAN 0 TYPE string
        SCAN 0 TYPE list
        SCAN 0 TYPE foo
        SCAN 0 MATCH b*
        SCAN 0 MATCH a* COUNT 100
        SCAN 0 COUNT 0
        SCAN 0 COUNT x
        SCAN 0 COUNT
        SCAN 0 FOO 1
        SCAN x
        SCAN""",
    "transactions": """
        EXEC
        DISCARD
        MULTI
        MULTI
        SET a 1
        GET a
        LPUSH a 1
        WATCH a
        EXEC
        MULTI
        FOO
        SET a 2
        EXEC
        MULTI
        GET
        DISCARD
        EXEC
        GET a
        WATCH a
        SET a 3
        MULTI
        SET a 4
        EXEC
        GET a
        WATCH a
        SET a 5
        UNWATCH
        MULTI
        SET a 6
        EXEC
        WATCH none
        MULTI
        BLPOP none 0
        EXEC
        WATCH a none
        EXPIRE a 100
        MULTI
        EXEC
        WATCH a
        DEL a
        MULTI
        EXEC
        WATCH none
        FLUSHALL
        MULTI
        EXEC
        MULTI
        SELECT 3
        SET x 1
        EXEC
        GET x
        MULTI
        PING
        RESET
        EXEC
        WATCH""",
    "transactions on streams": """
        XADD s 1-0 n 1
        XADD s 2-0 n 2
        XADD s 3-0 n 3
        XGROUP CREATE s g 0
        WATCH s
        XCLAIM s g c 0 1-0 2-0 FORCE JUSTID
        XACK s g 1-0
        XCLAIM s g d 0 2-0 JUSTID
        XGROUP CREATECONSUMER s g e
        XGROUP CREATE s h $
        XGROUP SETID s h 0
        XGROUP DESTROY s h
        XDEL s 9-0
        XTRIM s MAXLEN 9
        MULTI
        XLEN s
        EXEC
        WATCH s
        XADD s 4-0 n 4
        MULTI
        XLEN s
        EXEC
        WATCH s
        XDEL s 1-0
        MULTI
        EXEC
        WATCH s
        XTRIM s MAXLEN 2
        MULTI
        EXEC""",
    "the connection": """
        PING
        PING hello
        PING a b
        ECHO x
        ECHO
        HELLO 5
        HELLO x
        HELLO 2 FOO
        HELLO 2 AUTH default
        HELLO 2 SETNAME 'a b'
        CLIENT GETNAME
        CLIENT SETNAME me
        CLIENT GETNAME
        CLIENT SETNAME 'a b'
        CLIENT SETNAME ''
        CLIENT GETNAME
        CLIENT NO-EVICT x
        CLIENT NO-EVICT on
        CLIENT REPLY x
        CLIENT TRACKING x
        CLIENT TRACKING off
        CLIENT KILL 1:2
        CLIENT KILL ID x
        CLIENT KILL ID 99999
        CLIENT KILL FOO 1
        CLIENT KILL TYPE x
        CLIENT KILL USER nobody
        CLIENT UNBLOCK x
        CLIENT UNBLOCK 99999
        CLIENT UNBLOCK 1 FOO
        CLIENT PAUSE x
        CLIENT PAUSE -1
        CLIENT PAUSE 1 FOO
        CLIENT LIST TYPE foo
        CLIENT LIST TYPE pubsub
        CLIENT LIST ID x
        CLIENT LIST FOO
        CLIENT FOO
        CLIENT
        RESET""",
    "who may": """
        AUTH x
        AUTH a b c
        AUTH nobody x
        AUTH default x
        ACL WHOAMI
        ACL USERS
        ACL LIST
        ACL CAT foo
        ACL GETUSER none
        ACL GETUSER default
        ACL FOO
        CONFIG SET requirepass secret
        GET a
        RESET
        GET a
        FOO
        GET
        HELLO 2
        HELLO 2 AUTH default wrong
        AUTH wrong
        AUTH secret
        GET a
        ACL LIST
        ACL SETUSER default nopass
        RESET
        GET a""",
    "settings": """
        CONFIG SET nosuch 1
        CONFIG SET maxclients abc
        CONFIG SET appendfsync x
        CONFIG SET databases 3
        CONFIG SET maxclients 10000 maxclients 11
        CONFIG SET maxclients
        CONFIG SET maxclients 1 timeout
        CONFIG SET stream-node-max-entries -1
        CONFIG SET stream-node-max-bytes abc
        CONFIG SET client-output-buffer-limit 'pubsub 2mb 1mb 7 replica 1kb 0 0 normal 1mb 0 0'
        CONFIG GET client-output-buffer-limit
        CONFIG SET client-output-buffer-limit 'normal -1 0 0'
        CONFIG SET client-output-buffer-limit 'elephants 1 0 0'
        CONFIG SET client-output-buffer-limit 'normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60'
        CONFIG SET timeout -5
        CONFIG SET timeout 10 stream-node-max-bytes 4kb
        CONFIG GET stream-node-max-bytes
        CONFIG GET timeout
        CONFIG SET timeout 0 nosuch 1
        CONFIG GET timeout
        CONFIG SET timeout 0
        CONFIG SET stream-node-max-bytes 4096
        CONFIG SET save abc
        CONFIG SET save ''
        CONFIG GET none
        CONFIG GET databases
        CONFIG GET
        CONFIG REWRITE
        CONFIG FOO
        CONFIG RESETSTAT""",
    "the rest": """
        OBJECT FREQ none
        OBJECT ENCODING none
        OBJECT REFCOUNT none
        OBJECT FOO a
        OBJECT
        SET a 1
        OBJECT FREQ a
        MEMORY USAGE none
        MEMORY USAGE a SAMPLES x
        MEMORY USAGE a FOO 1
        DUMP none
        RESTORE b -1 x
        RESTORE b 0 x
        RESTORE b x x
        RESTORE a 0 x
        RESTORE b 0 x FOO
        WAIT x 0
        WAIT 0 x
        WAIT 0 -1
        WAIT 0 0
        SHUTDOWN FOO
        SHUTDOWN ABORT
        BGSAVE FOO
        FUNCTION FLUSH
        SCRIPT FLUSH
        ROLE
        COMMAND GETKEYS get a b
        COMMAND GETKEYS set a b
        COMMAND GETKEYS nosuch a
        COMMAND GETKEYS ping a
        COMMAND INFO none
        COMMAND FOO
        NOSUCH
        NOSUCH a 'b c'
        TIME x""",
}


def in_order(line: str, reply: Any) -> Any:
    """Redis lists what it keeps in tables in no order that anyone could rely on.

    And it counts what it would have sent to replicas from when it first had one, which another test may have seen to.
    """
    if line == "ROLE":
        assert isinstance(reply[1], int)
        return [reply[0], "an offset", *reply[2:]]
    return sorted(reply) if line.startswith(("KEYS", "SMEMBERS")) and isinstance(reply, list) else reply


@pytest.mark.parametrize("story", STORIES)
def test_every_reply_is_the_same(here: Ours, theirs: Theirs, story: str) -> None:
    lines = [line.strip() for line in STORIES[story].strip().splitlines()]
    told = [(line, in_order(line, here.run(line)), in_order(line, theirs.run(line))) for line in lines]
    wrong = [f"{line}\n  ours:   {ours!r}\n  theirs: {reply!r}" for line, ours, reply in told if ours != reply]
    assert not wrong, "\n" + "\n".join(wrong)


# Flags of Redis that say nothing here: of scripts that run too long, of its slow log, of replicas that copy, of a limit
# on memory, of keys that stand anywhere.
NO_FLAGS = {"allow_busy", "skip_slowlog", "no_async_loading", "denyoom", "movablekeys"}
# Another one since: it may be called with a command alone.
CHANGED = {"command|getkeys"}


def test_what_command_info_says_of_each(theirs: Theirs) -> None:
    every = [command for top in Ours.TABLE.values() for command in (top, *top.subcommands.values())]
    wrong = []
    for command in every:
        (found,) = theirs.run(f"COMMAND INFO '{command.name}'")
        if found is None or command.name in CHANGED or command.name.endswith("|help"):
            continue
        said = (found[1], tuple(found[3:6]))
        if said != (command.arity, command.keys):
            wrong.append(f"{command.name}: arity and keys {said}, not {(command.arity, command.keys)}")
        flags = {flag.decode() for flag in found[2]} - NO_FLAGS
        if not command.subcommands and command.group != "scripting" and flags != command.flags - NO_FLAGS:
            wrong.append(f"{command.name}: flags {sorted(flags)}, not {sorted(command.flags)}")
    assert not wrong, "\n" + "\n".join(wrong)
