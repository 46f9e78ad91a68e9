"""Prometheus: what the server counts, in the text format, on a port of its own."""

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from diskstream.server.counts import Counts
from diskstream.server.errors import ServeError

__all__ = ["MAX_SCRAPERS", "Gauge", "MetricsEndpoint", "as_text"]

_HELP = {
    "connections": "Clients accepted.",
    "rejected": "Clients turned away.",
    "commands": "Commands run.",
    "batched": "Entries that were added several at a time.",
    "bytes_in": "Bytes received.",
    "bytes_out": "Bytes sent.",
    "turns": "Turns of the loop that had something to do.",
    "query_limit": "Clients closed since their request was too long.",
    "output_limit": "Clients closed since they did not read.",
    "idle": "Clients closed since they were idle.",
    "protocol_errors": "Clients closed since they did not speak RESP.",
    "waits": "Commands that waited.",
}


@dataclasses.dataclass(frozen=True)
class Gauge:
    """A value that goes up and down."""

    name: str
    help: str
    value: float


def as_text(counts: Counts, gauges: Iterable[Gauge]) -> str:
    """All of them as Prometheus reads them."""
    lines: list[str] = []
    for name, text in _HELP.items():
        full = f"diskstream_server_{name}_total"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} counter", f"{full} {getattr(counts, name)}"]
    for gauge in gauges:
        full = f"diskstream_server_{gauge.name}"
        lines += [f"# HELP {full} {gauge.help}", f"# TYPE {full} gauge", f"{full} {gauge.value:g}"]
    return "\n".join(lines) + "\n"


# Scrapers at the same time: each has a thread. Who says nothing is closed after `_Handler.timeout`, and who says a byte
# now and then, or reads one, after this long: else a few of them would keep Prometheus out.
MAX_SCRAPERS = 16
_LONGEST_S = 10.0
# Who cannot be accepted, for want of descriptors, stays ready to be: the thread rests, or it would do nothing else.
_REST_S = 0.1


class _Endpoint(ThreadingHTTPServer):
    """Takes no more at a time than it has threads for: whoever reaches the port must not fill the memory with them."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MAX_SCRAPERS)
        self._since: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts one."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_REST_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a request a thread; closes it where there is none."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._since[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except (RuntimeError, MemoryError):  # no more threads: the server's own affairs go first
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, in the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def _ended(self, request: socket.socket) -> None:
        self._since.pop(request, None)
        self._free.release()

    def service_actions(self) -> None:
        """Ends those that take too long; `serve_forever` calls it twice a second."""
        now = time.monotonic()
        for request, since in list(self._since.items()):
            if now - since > _LONGEST_S:
                with contextlib.suppress(OSError):  # it ended just now
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: that somebody went away, or spoke no HTTP, is no news either."""


class _Handler(BaseHTTPRequestHandler):
    text: Callable[[], str]
    timeout = 10

    def do_GET(self) -> None:  # the name is http.server's
        """Answers with the metrics."""
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self.send_error(404)
            return
        body = type(self).text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        """Says nothing: a scrape each few seconds is no news."""


class MetricsEndpoint:
    """A thread that answers Prometheus.

    Raises:
        ServeError: the port cannot be used.
    """

    def __init__(self, address: str, port: int, text: Callable[[], str]) -> None:
        handler = type("Handler", (_Handler,), {"text": staticmethod(text)})
        try:
            self._server = _Endpoint((address, port), handler)
        except OSError as error:
            raise ServeError(f"cannot serve metrics on {address} port {port}: {error.strerror or error}") from None
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="diskstream metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
