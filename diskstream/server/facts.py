"""What only the running server knows of itself, for INFO and for Prometheus."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream.server.metrics import Gauge

if TYPE_CHECKING:
    from diskstream.server.serving import Server

__all__ = ["facts_of", "gauges_of"]

_STATM = Path("/proc/self/statm")


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0  # not known here


def facts_of(server: "Server") -> dict[str, dict[str, int | float | str]]:
    """Sections of INFO."""
    counts, connections = server.counts.since(server.counts_before), list(server.loop.connections.values())
    kept = [each.buffers() for each in connections]
    uptime = int(time.monotonic() - server.started)
    return {
        "server": {
            "config_file": server.settings.config_file,
            "process_id": os.getpid(),
            "tcp_port": server.port,
            "uptime_in_seconds": uptime,
            "uptime_in_days": uptime // 86400,
        },
        "clients": {
            "connected_clients": len(connections),
            "maxclients": server.settings.maxclients,
            "client_recent_max_input_buffer": max((each.came_bytes for each in kept), default=0),
            "client_recent_max_output_buffer": max((each.unsent_bytes for each in kept), default=0),
            "blocked_clients": server.loop.runner.waiters.count,
        },
        "memory": {"used_memory_rss": _resident_bytes()},
        "stats": {
            "total_connections_received": counts.connections,
            "total_commands_processed": counts.commands,
            "instantaneous_ops_per_sec": round(server.pace.commands),
            "instantaneous_input_kbps": f"{server.pace.bytes_in / 1024:.2f}",
            "instantaneous_output_kbps": f"{server.pace.bytes_out / 1024:.2f}",
            "total_net_input_bytes": counts.bytes_in,
            "total_net_output_bytes": counts.bytes_out,
            "rejected_connections": counts.rejected,
            "client_query_buffer_limit_disconnections": counts.query_limit,
            "client_output_buffer_limit_disconnections": counts.output_limit,
        },
    }


def gauges_of(server: "Server") -> Iterator[Gauge]:
    """What Prometheus is told beside the counters; called in its own thread."""
    connections = list(server.loop.connections.values())
    yield Gauge("clients", "Clients connected.", len(connections))
    failing = server.keyspace.troubles.writes_fail
    yield Gauge("writes_failing", "Whether the disk refused the last write: it is full, say.", int(failing))
    yield Gauge("waiting_clients", "Clients that wait for entries.", server.loop.runner.waiters.count)
    yield Gauge("unsent_bytes", "Bytes that wait for clients to read.", sum(len(each.out) for each in connections))
    yield Gauge("uptime_seconds", "Seconds since the start.", time.monotonic() - server.started)
    yield Gauge("resident_bytes", "Memory of the process.", _resident_bytes())
