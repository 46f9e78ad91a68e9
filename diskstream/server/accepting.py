"""Taking clients in, or turning them away."""

import socket
import ssl
import time
from collections.abc import Callable

from diskstream.commands.caller import Caller, Host
from diskstream.commands.keyspace import Keyspace
from diskstream.server.connection import Connection, Socket
from diskstream.server.counts import Counts
from diskstream.server.listeners import DENIED, Listener, is_local
from diskstream.server.loop import Loop
from diskstream.server.parts import Parser, Parts
from diskstream.server.settings import ServerSettings
from diskstream.server.tls import TlsSocket

__all__ = ["Door"]

_TOO_MANY = b"-ERR max number of clients reached\r\n"
# More seconds between probes the kernel refuses, and the client would go with them.
_MOST_PROBE_S = 32_767


class Door:
    """Where clients come in.

    Args:
        settings: who may.
        parts: parser and encoder of the connections.
        keyspace: for the callers.
        loop: what takes the connections.
        counts: what is counted.
        host: the server.
        context: of TLS; another one is for who comes from then on.
    """

    def __init__(
        self,
        settings: ServerSettings,
        parts: Parts,
        keyspace: Keyspace,
        loop: Loop,
        counts: Counts,
        *,
        host: Host,
        context: ssl.SSLContext | None,
    ) -> None:
        self.settings, self.parts, self.keyspace = settings, parts, keyspace
        self.loop, self.counts, self._host, self.context = loop, counts, host, context
        self._last_id = 0

    def accepts(self, listener: Listener) -> Callable[[socket.socket], None]:
        """What takes the clients of a listener."""
        return lambda client: self._accept(listener, client)

    def _accept(self, listener: Listener, client: socket.socket) -> None:
        self.counts.connections += 1
        try:
            client.setblocking(False)
            peer, local = client.getpeername(), client.getsockname()
            refusal = self._refusal(listener, peer)
            if refusal is not None:
                self.counts.rejected += 1
                if listener.kind != "tls":
                    client.send(refusal)
                client.close()
                return
            if listener.kind != "unix":
                self._tune(client)
            sock: Socket | socket.socket = client
            if listener.kind == "tls" and self.context is not None:
                sock = TlsSocket(client, self.context)
        except OSError:
            client.close()
            return
        self._last_id += 1
        unix = listener.kind == "unix"
        now = time.monotonic()
        caller = Caller(
            self.keyspace,
            id=self._last_id,
            address=f"{listener.name}:0" if unix else _shown(peer),
            local_address=f"{listener.name}:0" if unix else _shown(local),
            user=None if self.settings.requirepass else "default",
            created=now,
            last_used=now,
            host=self._host,
            is_local=unix or is_local(str(peer[0])),
        )
        self.loop.add(Connection(sock, caller, self.parser(), self.parts.encode))

    def parser(self) -> Parser:
        """A client's parser, with the limits as they are set now."""
        settings = self.settings
        return self.parts.parser(
            max_bulk_bytes=settings.proto_max_bulk_len, max_query_bytes=settings.client_query_buffer_limit, runs=True
        )

    def _refusal(self, listener: Listener, peer: object) -> bytes | None:
        if len(self.loop.connections) >= self.settings.maxclients:
            return _TOO_MANY
        guarded = self.settings.protected_mode and not self.settings.requirepass
        if guarded and listener.kind != "unix" and isinstance(peer, tuple) and not is_local(str(peer[0])):
            return DENIED
        return None

    def _tune(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.settings.tcp_keepalive:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                seconds = min(self.settings.tcp_keepalive, _MOST_PROBE_S)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // 3))
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _shown(address: object) -> str:
    if not isinstance(address, tuple):
        return str(address)
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
