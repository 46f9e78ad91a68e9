"""What stands between an archiver and a Redis, and can have it loading, silent, or away."""

import contextlib
import selectors
import socket
import threading

import hiredis

ANSWERS = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "busy": b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    "masterdown": b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
}


class Gateway:
    """Passes on what comes; as it is turned it answers one of `ANSWERS`, answers nothing, or hangs up."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self._mode = "through"
        self._mutex = threading.Lock()
        self._open: set[socket.socket] = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._let_in, daemon=True).start()

    def turn(self, mode: str) -> None:
        """`through`, one of `ANSWERS`, `silent` or `away`; whoever is connected is cut off, as by a new start."""
        with self._mutex:
            self._mode = mode
            ends = list(self._open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lead_to(self, host: str, port: int) -> None:
        """Whoever connects from now on comes to another server; who is connected stays where he is."""
        self._to = host, port

    def close(self) -> None:
        self._door.close()
        self.turn("away")

    def _let_in(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._mutex:
            mode = self._mode
            self._open.add(client)
        with client, contextlib.suppress(OSError):
            if mode == "through":
                self._pass_on(client)
            elif mode != "away":
                self._put_off(client, ANSWERS.get(mode, b""))
        with self._mutex:
            self._open.discard(client)

    def _pass_on(self, client: socket.socket) -> None:
        with socket.create_connection(self._to) as server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]  # sockets are registered, nothing else
                    if not data:
                        return
                    key.data.sendall(data)

    def _put_off(self, client: socket.socket, answer: bytes) -> None:
        commands = hiredis.Reader()
        while data := client.recv(1 << 16):
            commands.feed(data)
            while commands.gets() is not False:
                client.sendall(answer)
