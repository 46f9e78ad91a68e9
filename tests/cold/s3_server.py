"""An S3 server on loopback, and a door in front of it that fails on demand."""

import http.client
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "frozen"
REGION = "us-east-1"


def place_at(port: int, prefix: str) -> str:
    return f"s3://{BUCKET}/{prefix}?endpoint_override=http://127.0.0.1:{port}&region={REGION}"


@contextmanager
def s3_server() -> Iterator[int]:
    """moto's server in a process of its own; its port. It has one bucket."""
    # Port 0 is any that is free; the server says which.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        try:
            assert run.stdout is not None
            output = []
            for line in run.stdout:
                output.append(line)
                match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
                if match:
                    break
            else:
                raise AssertionError("the S3 server did not start:\n" + "".join(output))
            port = int(match[1])
            threading.Thread(target=lambda: [None for _ in run.stdout or ()], daemon=True).start()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request, timeout=30) as made:
                assert made.status == 200
            yield port
        finally:
            run.kill()


@dataclass(frozen=True)
class Asked:
    """A request that came to the door."""

    method: str
    path: str
    query: str

    @property
    def is_list(self) -> bool:
        return "list-type" in self.query

    @property
    def is_segment(self) -> bool:
        return self.path.endswith(".seg")

    @property
    def is_record(self) -> bool:
        return self.path.endswith(".json")


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    # Sent instead of the whole body; then the connection is cut.
    cut_at: int | None = None


@dataclass
class Door:
    """What stands between a client and the server. Each request is shown to `fault`, which may answer instead.

    Attributes:
        port: where it listens.
        behind: the server's port.
        fault: gives None to let a request through, an answer, or a function that changes body or answer.
        asked: every request so far.
        released: lets go of requests that `hang`.
    """

    port: int
    behind: int
    fault: "Callable[[Asked], Fault | None]" = field(default=lambda _: None)
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def url(self, prefix: str) -> str:
        return place_at(self.port, prefix)


@dataclass
class Fault:
    """What goes wrong with one request.

    Attributes:
        answer: sent, and the server never hears of it.
        body: changes what the server gets.
        after: changes what the server answered.
        hangs: no answer before the door is released.
        drips: bytes of the answer come one by one, slowly, until the door is released.
    """

    answer: Answer | None = None
    body: Callable[[bytes], bytes] | None = None
    after: Callable[[Answer], Answer] | None = None
    hangs: bool = False
    drips: bool = False


def refusal(status: int, code: str) -> Fault:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return Fault(Answer(status, [("Content-Type", "application/xml")], text))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self) -> None:
        door = self.server.door
        path, _, query = self.path.partition("?")
        asked = Asked(self.command, path, query)
        door.asked.append(asked)
        body = self._body()
        fault = door.fault(asked) or Fault()
        if fault.hangs:
            door.released.wait()
            self.close_connection = True
            return
        if fault.body is not None:
            body = fault.body(body)
        answer = fault.answer or self._forward(body)
        if fault.after is not None:
            answer = fault.after(answer)
        self._send(answer, drips=fault.drips)

    def _forward(self, body: bytes) -> Answer:
        behind = http.client.HTTPConnection("127.0.0.1", self.server.door.behind, timeout=30)
        try:
            dropped = {"transfer-encoding", "content-length", "expect", "connection"}
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            behind.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            response = behind.getresponse()
            kept = [
                (name, value)
                for name, value in response.getheaders()
                if name.lower() not in {"transfer-encoding", "connection", "date", "server"}
                and not name.lower().startswith("x-amz-checksum")
            ]
            return Answer(response.status, kept, response.read())
        finally:
            behind.close()

    def _send(self, answer: Answer, *, drips: bool) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if drips:
            for at in range(len(answer.body)):
                if self.server.door.released.wait(0.3):
                    break
                self.wfile.write(answer.body[at : at + 1])
            self.close_connection = True
            return
        self.wfile.write(answer.body if answer.cut_at is None else answer.body[: answer.cut_at])
        if answer.cut_at is not None:
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve  # noqa: N815  # the names are http.server's

    def handle(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has given up
            super().handle()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, door: Door) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.door = door


@contextmanager
def door_to(behind: int) -> Iterator[Door]:
    door = Door(0, behind)
    with _Server(door) as server:
        door.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield door
        finally:
            door.released.set()
            server.shutdown()
            thread.join()
