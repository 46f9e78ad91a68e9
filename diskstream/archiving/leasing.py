"""One archiver at a time trims a stream: a key in the Redis says who does.

The lease of stream K is the string ``diskstream:archiver:K``; it holds the store's identity and where it is, who holds
it, and a random word, and expires unless it is renewed. The script that trims looks at it in the same step, so an
archiver that lost its lease trims nothing. An archiver takes over the lease of one before it that wrote into the same
store: the store's own lock proves that it is dead. Of a store with the same identity elsewhere (one that was moved, or
a backup of it that was restored) nobody knows: then it waits for as long as a lease lasts, whether it is renewed.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time

from diskstream import errors
from diskstream.archiving.server import Server
from diskstream.redis_link import is_full, takes_no_writes

__all__ = ["LEASE_PREFIX", "OURS", "RESTORING_PREFIX", "Lease"]

LEASE_PREFIX = b"diskstream:archiver:"
# Under these names a restore builds what it puts into place at its end.
RESTORING_PREFIX = b"diskstream:restoring:"
OURS = (LEASE_PREFIX, RESTORING_PREFIX)
_LEASE_MS = 30_000
_RENEW_EVERY_S = 8.0
_LOOK_EVERY_S = 0.5

# KEYS: the lease. ARGV: our value, the first word of it, milliseconds.
_TAKE = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] and string.match(held, '^(%S+)') ~= ARGV[2] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return false
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Lease:
    """The right to trim some streams, renewed in the background until it is released."""

    def __init__(self, server: Server, identity: str) -> None:
        """Takes none yet.

        Args:
            server: where.
            identity: of the store, and where it is: ``uuid@place``.
        """
        self._server, self._identity = server, identity
        self.value = f"{identity} process {os.getpid()} on {socket.gethostname()} {secrets.token_hex(8)}"
        self._keys: set[bytes] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, key: bytes, stop: threading.Event | None = None) -> bool:
        """Takes the lease of a stream, or renews it.

        Args:
            key: the stream.
            stop: ends the waiting for one that a store with the same identity has.

        Returns:
            False where the server has no room for it; the trim itself then makes some. Or where it takes no writes for
            now: it takes no trim either.

        Raises:
            ChangedError: another archiver has it; the message says who.
            RemoteError: the server failed or refused.
        """
        until = time.monotonic() + _LEASE_MS / 1000 + _LOOK_EVERY_S
        try:
            held = self._ask(key)
            while held and stop is not None and self._is_of_a_copy(held) and time.monotonic() < until:
                if stop.wait(_LOOK_EVERY_S):
                    break
                held = self._ask(key)
        except errors.RemoteError as error:
            if is_full(error) or takes_no_writes(error):
                return False
            raise
        if held:
            who = held.decode("utf-8", "replace").split(" ", 1)[-1].rpartition(" ")[0]
            raise errors.ChangedError(
                self._server.shown,
                f"another archiver, {who}, trims the stream {errors.quoted(key)}",
                f"stop it; if it is gone already, its lease ends within {_LEASE_MS // 1000} seconds",
            )
        self._keys.add(key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="diskstream archiver's lease", daemon=True)
            self._thread.start()
        return True

    def _ask(self, key: bytes) -> bytes | None:
        """Takes a lease. Returns whose it is, where it is another's."""
        words = "EVAL", _TAKE, 1, LEASE_PREFIX + key, self.value, self._identity, _LEASE_MS
        held: bytes | None = self._server.call(f"take the lease of {errors.quoted(key)}", *words)
        return held

    def _is_of_a_copy(self, held: bytes) -> bool:
        return held.partition(b" ")[0].partition(b"@")[0] == self._identity.partition("@")[0].encode()

    def holds(self, key: bytes) -> bool:
        """Whether the lease of a stream was taken, as far as is known."""
        return key in self._keys

    def _renew(self) -> None:
        while not self._stop.wait(_RENEW_EVERY_S):
            for key in list(self._keys):
                try:
                    self.take(key)
                except errors.RemoteError:
                    self._keys.discard(key)  # the script that trims finds out, and says so

    def release(self) -> None:
        """Gives all leases back; those that cannot be reached expire."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for key in self._keys:
            try:
                self._server.call("give a lease back", "EVAL", _RELEASE, 1, LEASE_PREFIX + key, self.value)
            except errors.RemoteError:
                return
        self._keys.clear()
