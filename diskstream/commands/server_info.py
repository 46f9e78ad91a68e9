"""INFO, and the small questions: TIME, LASTSAVE, ROLE, LOLWUT."""

import os
import platform
import resource
import sys
import time
from pathlib import Path

from diskstream import __version__
from diskstream.commands.caller import Caller
from diskstream.commands.keyspace import DATABASES
from diskstream.commands.replies import Reply
from diskstream.commands.table import Command
from diskstream.commands.wire import report_of
from diskstream.errors import DiskstreamError

__all__ = ["COMMANDS", "REDIS_VERSION"]

# Of the Redis whose commands on streams these are.
REDIS_VERSION = "8.8.0"

Facts = dict[str, int | float | str]
_DEFAULT = (
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "errorstats",
    "cluster",
    "keyspace",
)
_ALL = (*_DEFAULT[:7], "commandstats", *_DEFAULT[7:])
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def _server(caller: Caller) -> Facts:
    uptime = int(time.time() - caller.keyspace.statistics.started)
    return {
        "redis_version": REDIS_VERSION,
        "diskstream_version": __version__,
        "redis_mode": "standalone",
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "arch_bits": 64,
        "process_id": os.getpid(),
        "run_id": f"{os.getpid():x}{int(caller.keyspace.statistics.started * 1000):x}".rjust(40, "0"),
        "tcp_port": caller.keyspace.settings["port"],
        "server_time_usec": time.time_ns() // 1000,
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime // 86_400,
        "hz": caller.keyspace.settings["hz"],
        "executable": sys.executable,
        "config_file": "",
    }


def _clients(caller: Caller) -> Facts:
    clients = [caller] if caller.host is None else caller.host.clients()
    waits = [client.waiting for client in clients if client.waiting is not None]
    return {
        "connected_clients": len(clients),
        "maxclients": caller.keyspace.settings["maxclients"],
        "blocked_clients": len(waits),
        "total_blocking_keys": len({(wait.database, key) for wait in waits for key in wait.keys}),
        "watching_clients": sum(bool(client.watched) for client in clients),
        "tracking_clients": 0,
    }


def _peak_bytes() -> int:
    """The most memory that this process had: in Linux's `ru_maxrss` that of whoever started it counts too."""
    try:
        with Path("/proc/self/status").open(encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def _memory(caller: Caller) -> Facts:
    peak = _peak_bytes()
    try:
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            used = int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        used = peak
    return {
        "used_memory": used,
        "used_memory_human": f"{used / (1 << 20):.2f}M",
        "used_memory_rss": used,
        "used_memory_peak": max(peak, used),
        "used_memory_peak_human": f"{max(peak, used) / (1 << 20):.2f}M",
        "total_system_memory": os.sysconf("SC_PHYS_PAGES") * resource.getpagesize(),
        "maxmemory": caller.keyspace.settings["maxmemory"],
        "maxmemory_policy": caller.keyspace.settings["maxmemory-policy"],
        "mem_allocator": "system",
    }


def _persistence(caller: Caller) -> Facts:
    return {
        "loading": 0,
        "async_loading": 0,
        "rdb_changes_since_last_save": 0,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": caller.keyspace.statistics.saved,
        "rdb_last_bgsave_status": "ok",
        "aof_enabled": 1,
        "aof_rewrite_in_progress": int(caller.keyspace.compacting.locked()),
        "aof_rewrite_scheduled": 0,
        "aof_last_bgrewrite_status": "err" if caller.keyspace.statistics.compaction_failed else "ok",
        "aof_last_write_status": "err" if caller.keyspace.troubles.writes_fail else "ok",
    }


def _stats(caller: Caller) -> Facts:
    statistics = caller.keyspace.statistics
    return {
        "total_commands_processed": sum(calls.calls for calls in statistics.commands.values()),
        "expired_keys": statistics.expired,
        "evicted_keys": 0,
        "total_error_replies": sum(statistics.errors.values()),
    }


def _replication(_caller: Caller) -> Facts:
    return {"role": "master", "connected_slaves": 0, "master_failover_state": "no-failover", "master_repl_offset": 0}


def _cpu(_caller: Caller) -> Facts:
    ours, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "used_cpu_sys": f"{ours.ru_stime:.6f}",
        "used_cpu_user": f"{ours.ru_utime:.6f}",
        "used_cpu_sys_children": f"{children.ru_stime:.6f}",
        "used_cpu_user_children": f"{children.ru_utime:.6f}",
    }


def _command_statistics(caller: Caller) -> Facts:
    found: Facts = {}
    for name, calls in sorted(caller.keyspace.statistics.commands.items()):
        micros = calls.nanoseconds // 1000
        each = calls.nanoseconds / 1000 / calls.calls if calls.calls else 0.0
        found[f"cmdstat_{name}"] = (
            f"calls={calls.calls},usec={micros},usec_per_call={each:.2f},rejected_calls={calls.rejected},"
            f"failed_calls={calls.failed}"
        )
    return found


def _error_statistics(caller: Caller) -> Facts:
    return {f"errorstat_{code}": f"count={count}" for code, count in sorted(caller.keyspace.statistics.errors.items())}


def _cluster(_caller: Caller) -> Facts:
    return {"cluster_enabled": 0}  # what asks goes on as with a single server


def _keyspace(caller: Caller) -> Facts:
    found: Facts = {}
    for database in range(DATABASES):
        try:
            keys, expires = len(caller.keyspace.names(database)), caller.keyspace.times_to_live_ms(database)
        except (DiskstreamError, OSError) as error:  # of one database: who watches a server is told all the rest
            found[f"db{database}_fault"] = " ".join(str(error).split())
            continue
        if keys:
            average_ms = sum(expires) // len(expires) if expires else 0
            found[f"db{database}"] = f"keys={keys},expires={len(expires)},avg_ttl={average_ms},subexpiry=0"
    return found


_SECTIONS = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "commandstats": _command_statistics,
    "errorstats": _error_statistics,
    "cluster": _cluster,
    "keyspace": _keyspace,
}
_TITLES = {"cpu": "CPU"}


def _info(caller: Caller, words: list[bytes]) -> Reply:
    asked = [word.decode("latin-1").lower() for word in words[1:]] or ["default"]
    wanted: set[str] = set()
    for name in asked:
        wanted.update({"default": _DEFAULT, "all": _ALL, "everything": _ALL}.get(name, (name,)))
    facts = {} if caller.host is None else caller.host.facts()
    sections = []
    for name in [*_SECTIONS, *(name for name in facts if name not in _SECTIONS)]:
        if name not in wanted and not (name not in _SECTIONS and wanted.issuperset(_DEFAULT)):
            continue
        found = {**(_SECTIONS[name](caller) if name in _SECTIONS else {}), **facts.get(name, {})}
        lines = "".join(f"{key}:{value}\r\n" for key, value in found.items())
        sections.append(f"# {_TITLES.get(name, name.capitalize())}\r\n{lines}")
    return report_of("\r\n".join(sections), caller.protocol)


def _time(_caller: Caller, _words: list[bytes]) -> Reply:
    seconds, micros = divmod(time.time_ns() // 1000, 1_000_000)
    return [str(seconds), str(micros)]


def _last_save(caller: Caller, _words: list[bytes]) -> Reply:
    return caller.keyspace.statistics.saved


def _role(_caller: Caller, _words: list[bytes]) -> Reply:
    return ["master", 0, []]


def _lolwut(caller: Caller, _words: list[bytes]) -> Reply:
    text = f"~~~><> ~~~ diskstream ver. {__version__}, as Redis ver. {REDIS_VERSION}\n"
    return report_of(text, caller.protocol)


_ANYTIME = frozenset({"loading", "stale"})

COMMANDS = (
    Command("info", -1, _info, _ANYTIME, group="server", since="1.0.0", summary="Returns information and statistics."),
    Command("time", 1, _time, _ANYTIME | {"fast"}, group="server", since="2.6.0", summary="Returns the server time."),
    Command(
        "lastsave",
        1,
        _last_save,
        _ANYTIME | {"fast"},
        group="server",
        since="1.0.0",
        summary="Returns when everything was last made durable on demand.",
    ),
    Command(
        "role", 1, _role, _ANYTIME | {"fast", "noscript"}, group="server", since="2.8.12", summary="Returns the role."
    ),
    Command(
        "lolwut",
        -1,
        _lolwut,
        frozenset({"fast", "readonly"}),
        group="server",
        since="5.0.0",
        summary="Displays the version.",
    ),
)
