"""The sockets that the server listens on."""

import contextlib
import errno
import ipaddress
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from diskstream.server.errors import ServeError
from diskstream.server.settings import ServerSettings

__all__ = ["DENIED", "Listener", "check_protected", "close_all", "is_local", "open_listeners"]

# Redis's words to a client from elsewhere.
DENIED = (
    b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for "
    b"the default user. In this mode connections are only accepted from the loopback interface. If you want to "
    b"connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable "
    b"protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by "
    b"connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly "
    b"accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively"
    b" you can just disable the protected mode by editing the Redis configuration file, and setting the "
    b"protected mode option to 'no', and then restarting the server. 3) If you started the server manually just"
    b" for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password for"
    b" the default user. NOTE: You only need to do one of the above things in order for the server to start "
    b"accepting connections from the outside.\r\n"
)
_WAYS_OUT = {
    errno.EADDRINUSE: "another program, perhaps a Redis, listens there (ss -ltnp says which): stop it, or set port",
    errno.EADDRNOTAVAIL: "bind names addresses of this machine; one after a hyphen may fail",
}
_UNIX_IN_USE = "another server listens there, or it is a file that is no socket, which is left alone: set unixsocket"
_ALL = {"*": "0.0.0.0", "-::*": "-::", "::*": "::"}  # what Redis writes for every interface


@dataclass(frozen=True)
class Listener:
    """A listening socket.

    Attributes:
        sock: the socket.
        kind: ``tcp``, ``tls`` or ``unix``.
        name: as people write it.
        file: which file the Unix socket is, by its device and number; None of others.
    """

    sock: socket.socket
    kind: str
    name: str
    file: tuple[int, int] | None = None


def is_local(address: str) -> bool:
    """Whether an address is of the loopback interface."""
    if address == "localhost":
        return True
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(found, "ipv4_mapped", None)
        return bool((mapped or found).is_loopback)
    return False


def check_protected(settings: ServerSettings) -> None:
    """Refuses to serve others without a password.

    Raises:
        ServeError: it would.
    """
    open_to = [each for each in settings.bind if not is_local(each.removeprefix("-"))]
    if open_to and (settings.port or settings.tls_port) and settings.protected_mode and not settings.requirepass:
        raise ServeError(
            f"protected mode: {open_to[0]} can be reached from other machines, and no password is set",
            hint="set requirepass, or bind 127.0.0.1, or protected-mode no where a firewall stands before it",
        )


def open_listeners(settings: ServerSettings) -> list[Listener]:
    """Opens all of them; `check_protected` comes before.

    Raises:
        ServeError: an address cannot be used, or there is nothing to listen on.
    """
    if settings.port and settings.port == settings.tls_port:
        raise ServeError(f"port and tls-port are both {settings.port}", hint="port 0 is for clients with TLS alone")
    found: list[Listener] = []
    try:
        # Port 0 means none beside another way in; alone it is a free one, for tests and tools.
        if settings.port or not (settings.tls_port or settings.unixsocket):
            found += _open_tcp(settings, settings.port, "tcp")
        if settings.tls_port:
            found += _open_tcp(settings, settings.tls_port, "tls")
        if settings.unixsocket:
            found.append(_open_unix(settings))
    except BaseException:
        close_all(found)
        raise
    return found


def _open_tcp(settings: ServerSettings, port: int, kind: str) -> list[Listener]:
    found: list[Listener] = []
    for word in settings.bind:
        may_fail, address = word.startswith("-"), _ALL.get(word, word).removeprefix("-")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = None
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, port))
            sock.listen(settings.tcp_backlog)
        except OSError as error:
            if sock is not None:
                sock.close()
            if may_fail:
                continue
            close_all(found)
            raise ServeError(
                f"cannot listen on {address} port {port}: {error.strerror or error}",
                hint=_WAYS_OUT.get(error.errno or 0),
            ) from None
        port = port or int(sock.getsockname()[1])  # the other addresses get the same free one
        found.append(Listener(sock, kind, f"[{address}]:{port}" if ":" in address else f"{address}:{port}"))
    if not found:
        raise ServeError(f"cannot listen on any address of bind {' '.join(settings.bind)!r}, port {port}")
    return found


def _open_unix(settings: ServerSettings) -> Listener:
    path = Path(settings.unixsocket)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        sock.bind(str(path))
        if settings.unixsocketperm:
            path.chmod(int(settings.unixsocketperm, 8))
        sock.listen(settings.tcp_backlog)
        file = _file(path)
    except OSError as error:
        sock.close()
        hint = _UNIX_IN_USE if error.errno == errno.EADDRINUSE else None
        raise ServeError(f"cannot listen on {path}: {error.strerror or error}", hint=hint) from None
    return Listener(sock, "unix", str(path), file)


def _file(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove_stale(path: Path) -> None:
    """Removes a socket that a killed server left; never another file, nor a socket that somebody listens on."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)  # who listens may have all the clients that may wait for it, and take no more
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            except BlockingIOError:
                return


def close_all(listeners: list[Listener]) -> None:
    """Closes them, and removes the Unix socket's name, unless another server listens under it by now."""
    for each in listeners:
        with contextlib.suppress(OSError):
            if each.kind == "unix" and _file(Path(each.name)) == each.file:
                Path(each.name).unlink()
        each.sock.close()  # not before: the number of a file that is gone is given to the next one
