"""On the way to a command: who may call it, what is counted, what a transaction holds back."""

import re
import shutil
from typing import Any, NoReturn

import pytest

from diskstream import PoisonedError, __version__
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import NIL_ARRAY, Map, Raw
from diskstream.commands.statistics import MAX_CODES, Statistics
from diskstream.commands.table import Command, table_of
from diskstream.commands.waiting import Waiting
from tests.commands.conftest import Clock
from tests.commands.world import Ours, Refused


def info(ours: Ours, section: str = "") -> dict[str, str]:
    lines = ours.run(f"INFO {section}").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def test_calls_and_errors_are_counted(ours: Ours) -> None:
    for line in ("PING", "PING", "GET", "GET none", "NOSUCH", "SET k 1", "LPUSH k 1", "CONFIG GET none"):
        ours.run(line)
    found = info(ours, "commandstats")
    assert re.fullmatch(
        r"calls=2,usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=0,failed_calls=0", found["cmdstat_ping"]
    )
    assert found["cmdstat_lpush"].endswith("rejected_calls=0,failed_calls=1")
    assert found["cmdstat_get"].startswith("calls=1,")
    assert found["cmdstat_get"].endswith("rejected_calls=1,failed_calls=0")  # as Redis counts a wrong number of words
    assert found["cmdstat_config|get"].startswith("calls=1,")
    assert info(ours, "errorstats") == {"errorstat_ERR": "count=2", "errorstat_WRONGTYPE": "count=1"}
    assert info(ours, "stats")["total_error_replies"] == "3"
    ours.run("CONFIG RESETSTAT")
    assert info(ours, "errorstats") == {}


def test_codes_of_errors_are_bounded() -> None:
    statistics = Statistics()
    for number in range(1000):
        statistics.count_error(b"CODE%d words" % number)
    assert len(statistics.errors) == MAX_CODES


def test_before_authentication_only_a_few_commands(keyspace: Keyspace) -> None:
    keyspace.settings.put("requirepass", "secret")
    ours = Ours(keyspace, user=None)
    for line in ("PING", "MULTI", "CLIENT ID", "CONFIG GET *"):
        assert ours.run(line) == Refused(b"NOAUTH Authentication required.")
    assert ours.run("QUIT") == b"OK"
    assert ours.run("RESET") == b"RESET"
    assert ours.run("HELLO 3").startswith(b"NOAUTH ")
    assert ours.caller.protocol == 2
    assert isinstance(ours.raw(b"HELLO", b"3", b"AUTH", b"default", b"secret", b"SETNAME", b"me"), Map)
    assert (ours.caller.protocol, ours.caller.name, ours.caller.user) == (3, b"me", "default")


@pytest.mark.parametrize("name", [command.name for command in Ours.TABLE.values() if command.subcommands])
def test_who_is_told_to_try_help_finds_it(ours: Ours, keyspace: Keyspace, name: str) -> None:
    """SCRIPT and FUNCTION had none."""
    keyspace.settings.put("enable-debug-command", "yes")
    assert ours.run(f"{name} nosuch") == Refused(f"ERR unknown subcommand 'nosuch'. Try {name.upper()} HELP.".encode())
    assert ours.run(f"{name} HELP")[0].startswith(name.upper().encode())


@pytest.mark.parametrize("option", ["SETNAME 'a b'", "FOO"])
def test_a_hello_that_is_refused_has_let_nobody_in(keyspace: Keyspace, option: str) -> None:
    """With a name that is none it was refused when the password had been taken already."""
    keyspace.settings.put("requirepass", "secret")
    ours = Ours(keyspace, user=None)
    assert isinstance(ours.run(f"HELLO 3 AUTH default secret {option}"), Refused)
    assert (ours.caller.protocol, ours.caller.name, ours.caller.user) == (2, b"", None)
    assert ours.run("PING") == Refused(b"NOAUTH Authentication required.")


def test_hello_says_what_clients_look_for(ours: Ours) -> None:
    reply = ours.raw(b"HELLO", b"3")
    found = dict(reply.pairs)
    assert list(found) == ["server", "version", "proto", "id", "mode", "role", "modules"]
    assert (found["server"], found["proto"], found["role"], found["modules"]) == ("redis", 3, "master", [])
    assert info(ours)["redis_version"] == found["version"]
    assert info(ours)["diskstream_version"] == __version__


def test_info_by_sections(ours: Ours) -> None:
    ours.run("SET k 1")
    ours.run("EXPIRE k 100")
    text = ours.run("INFO").decode()
    titles = re.findall(r"^# (\w+)\r$", text, re.MULTILINE)
    assert titles == [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ]
    assert "# Commandstats" in ours.run("INFO all").decode()
    assert ours.run("INFO nosuch") == b""
    assert ours.run("INFO keyspace") == b"# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl=100000,subexpiry=0\r\n"
    assert info(ours, "clients replication").keys() >= {"blocked_clients", "total_blocking_keys", "role"}
    assert info(ours, "cluster") == {"cluster_enabled": "0"}
    memory = info(ours, "memory")
    assert int(memory["total_system_memory"]) > int(memory["used_memory_peak"]) >= int(memory["used_memory"]) > 0


def test_info_tells_how_long_what_expires_is_still_there_on_average(ours: Ours, clock: Clock) -> None:
    for line in ("XADD a 1-1 f v", "SET b 1", "SET stays 1", "PEXPIRE a 1000", "PEXPIRE b 4000"):
        ours.run(line)
    clock.now += 300
    assert info(ours)["db0"] == "keys=3,expires=2,avg_ttl=2200,subexpiry=0"
    clock.now += 1000
    assert info(ours)["db0"] == "keys=2,expires=1,avg_ttl=2700,subexpiry=0"


@pytest.mark.usefixtures("no_keepers")  # which find the files gone, and closing would say so
def test_info_says_the_rest_where_a_database_cannot_be_listed(ours: Ours) -> None:
    ours.run("XADD s 1-1 f v")
    ours.run("SELECT 3")
    ours.run("XADD s 1-1 f v")
    shutil.rmtree(ours.keyspace.path / "streams")
    found = info(ours)
    assert found["redis_mode"] == "standalone"
    assert found["db0_fault"].startswith(f"could not list {ours.keyspace.path}: the store is not there any more")
    assert found["db3"] == "keys=1,expires=0,avg_ttl=0,subexpiry=0"
    assert "db0" not in found
    with pytest.raises(PoisonedError):  # what was added to it went with its files
        ours.keyspace.close()


def test_within_exec_nothing_waits(keyspace: Keyspace) -> None:
    seen: list[bool] = []

    def wait(caller: Caller, words: list[bytes]) -> Any:
        seen.append(caller.may_wait)
        return Waiting(0, (b"k",), None, lambda: None)

    ours = Ours(keyspace)
    known = {**ours.TABLE, **table_of([Command("wait_here", 1, wait)])}
    caller = ours.caller
    assert isinstance(dispatch(known, caller, [b"WAIT_HERE"]), Waiting)
    ours.run("MULTI")
    ours.run("BLPOP none 0")
    assert ours.run("EXEC") == [None]
    assert caller.may_wait
    assert isinstance(ours.raw(b"BLPOP", b"none", b"0"), Waiting)
    assert seen == [True]


def test_a_pop_that_waits_gets_what_comes(ours: Ours, keyspace: Keyspace) -> None:
    waiting = ours.raw(b"BLPOP", b"a", b"b", b"5")
    assert isinstance(waiting, Waiting)
    assert (waiting.database, waiting.keys, waiting.otherwise) == (0, (b"a", b"b"), NIL_ARRAY)
    assert waiting.until is not None
    assert waiting.again() is None
    Ours(keyspace).run("RPUSH b 1")
    assert waiting.again() == [b"b", b"1"]
    assert ours.run("EXISTS b") == 0


def test_commands_of_a_transaction_that_fail_do_not_stop_it(ours: Ours) -> None:
    for line in ("MULTI", "SET k 1", "LPUSH k 1", "INCR k"):
        ours.run(line)
    assert ours.run("EXEC") == [b"OK", Refused(b"WRONGTYPE Operation against a key holding the wrong kind of value"), 2]


def test_what_may_not_be_queued_spoils_the_transaction(ours: Ours) -> None:
    ours.run("MULTI")
    assert ours.run("SHUTDOWN") == Refused(b"ERR Command not allowed inside a transaction")
    assert ours.run("EXEC").startswith(b"EXECABORT")


def test_reset_forgets_everything(ours: Ours) -> None:
    for line in ("SELECT 3", "HELLO 3 SETNAME me", "WATCH k", "CLIENT REPLY ON", "MULTI"):
        ours.run(line)
    ours.run("RESET")
    caller = ours.caller
    assert (caller.database, caller.protocol, caller.name, caller.transaction, caller.watched) == (0, 2, b"", None, {})


class Unwalked(dict[tuple[int, bytes], object]):
    """What nobody goes through from one end to the other."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all that is watched was looked at")


def test_a_watch_looks_at_its_own_keys_only(ours: Ours) -> None:
    """Each went through all that was watched: twenty thousand, one by one, held up everybody for twenty seconds."""
    ours.caller.watched = Unwalked({(0, b"k%d" % n): None for n in range(10)})
    assert ours.run("WATCH k3 other k3") == b"OK"
    assert len(ours.caller.watched) == 11


def test_whether_there_is_a_reply(ours: Ours) -> None:
    assert ours.raw(b"CLIENT", b"REPLY", b"OFF") == Raw(b"")
    assert ours.caller.reply_mode == "off"
    assert ours.raw(b"CLIENT", b"REPLY", b"SKIP") == Raw(b"")
    assert ours.caller.reply_mode == "off"
    assert ours.run("CLIENT REPLY ON") == b"OK"
    assert ours.raw(b"CLIENT", b"REPLY", b"SKIP") == Raw(b"")
    assert ours.caller.reply_mode == "skip"


def test_every_command_is_documented_and_found_by_its_own_name(ours: Ours) -> None:
    for name, command in ours.TABLE.items():
        assert command.name == name
        assert command.summary, name
        assert command.run is not None or command.subcommands, name
        for below, sub in command.subcommands.items():
            assert sub.name == f"{name}|{below}"
    assert ours.run("COMMAND COUNT") == len(ours.TABLE) == len(ours.run("COMMAND")) == len(ours.run("COMMAND LIST"))
    assert ours.run("COMMAND GETKEYS copy a b") == [b"a", b"b"]
    assert ours.run("COMMAND GETKEYS blpop a b 0") == [b"a", b"b"]
    assert ours.run("COMMAND LIST FILTERBY PATTERN pex*") == [b"pexpire", b"pexpireat", b"pexpiretime"]
    assert b"del" in ours.run("COMMAND LIST FILTERBY ACLCAT write")


@pytest.mark.parametrize("line", ["DEBUG RELOAD", "DEBUG LOADAOF", "CONFIG SET appendfsync always", "BGREWRITEAOF"])
def test_nothing_is_lost_by(ours: Ours, keyspace: Keyspace, line: str) -> None:
    keyspace.stream(0, b"s").add_many([{"f": "1"}] * 50)
    for before in ("SET k 1", "EXPIRE k 100", "SWAPDB 1 2"):
        ours.run(before)
    assert not isinstance(ours.run(line), Refused)
    assert len(keyspace.stream(0, b"s")) == 50
    assert ours.run("GET k") == b"1"
    assert ours.run("TTL k") == 100
    assert keyspace.options.get("fsync") == ("always" if "always" in line else None)


def test_waitaof_says_that_it_is_on_disk(ours: Ours, keyspace: Keyspace) -> None:
    stream = keyspace.stream(0, b"s")
    stream.add({"f": "1"})
    assert ours.run("WAITAOF 1 0 0") == [1, 0]
    assert stream.info().durable
    assert ours.run("WAITAOF 2 0 0") == Refused(b"ERR value is out of range, must be between 0 and 1")
