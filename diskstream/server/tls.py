"""TLS: the context made of the settings, and a socket that behaves as a plain one does in the loop."""

import contextlib
import shlex
import socket
import ssl
from typing import NoReturn

from diskstream.server.errors import ServeError
from diskstream.server.settings import ServerSettings

__all__ = ["TlsError", "TlsSocket", "context_of"]


def context_of(settings: ServerSettings) -> ssl.SSLContext:
    """The context for the server's side.

    Raises:
        ServeError: a certificate or key is missing, cannot be read, or they do not belong together.
    """
    if not settings.tls_cert_file or not settings.tls_key_file:
        raise ServeError("tls-port needs tls-cert-file and tls-key-file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could ask for handshake after handshake
    key = settings.tls_key_file
    files = [settings.tls_cert_file, key]
    try:
        context.load_cert_chain(settings.tls_cert_file, key, password=lambda: _refuse_phrase(key))
        if settings.tls_auth_clients != "no":
            if not settings.tls_ca_cert_file:
                raise ServeError(
                    "tls-auth-clients needs tls-ca-cert-file",
                    hint="set tls-auth-clients to no where clients have no certificates of their own",
                )
            files = [settings.tls_ca_cert_file]
            context.load_verify_locations(settings.tls_ca_cert_file)
            wanted = settings.tls_auth_clients == "yes"
            context.verify_mode = ssl.CERT_REQUIRED if wanted else ssl.CERT_OPTIONAL
    except OSError as error:  # an SSLError is one
        raise ServeError(f"cannot use the certificates ({', '.join(files)}): {error}") from None
    return context


def _refuse_phrase(key_file: str) -> NoReturn:
    """In place of OpenSSL's question on the terminal: behind SIGHUP all clients would wait for whoever sits there."""
    raise ServeError(
        f"the key {key_file} is encrypted, and there is nobody to ask for its pass phrase",
        hint=f"store it without one, for its owner alone: openssl pkey -in {shlex.quote(key_file)} -out FILE",
    )


class TlsError(OSError):
    """There is no TLS with a client: it speaks something else, has no certificate that counts, or does not trust ours.

    Its text is OpenSSL's reason.
    """


def _reason(error: ssl.SSLError) -> str:
    """As ``peer did not return a certificate``; of a certificate that does not count, what is wrong with it."""
    wrong = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else ""
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return f"{reason}: {wrong}" if wrong else reason


class TlsSocket:
    """A socket with TLS, as the loop wants it: the handshake is made by the first reads."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._socket.setblocking(False)

    def recv(self, size: int, /) -> bytes:
        """Some bytes, at least a record where it is there.

        Raises:
            BlockingIOError: there are none yet.
            TlsError: there is no TLS with the client.
            OSError: it is gone.
        """
        try:
            return self._socket.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error

    def send(self, data: bytes | memoryview, /) -> int:
        """Sends some.

        Raises:
            BlockingIOError: nothing can go now.
            OSError: the client is gone.
        """
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def fileno(self) -> int:
        """The descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Closes it; says good-bye where that needs no waiting."""
        with contextlib.suppress(OSError, ValueError):
            self._socket.settimeout(0)
            self._socket.unwrap()
        self._socket.close()
