"""The turns of the server: take what came, run it, send what is to be sent."""

import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import Protocol

from diskstream.commands.replies import ErrorReply
from diskstream.commands.wire import Receiver, send_each
from diskstream.server.connection import SOFT_OUT_BYTES, UNKNOWN_OUT_BYTES, Connection
from diskstream.server.counts import Counts
from diskstream.server.parts import Parser
from diskstream.server.poller import GONE, HANGUP, READ, WRITE, Poller
from diskstream.server.running import Arrived, Commands, Runner
from diskstream.server.tls import TlsError

__all__ = ["Limits", "Loop"]

_LOG = logging.getLogger("diskstream.server")
_RECEIVE_BYTES = 64 << 10
# So long nothing happens before the thread of the bells is woken: it would only be in the way of a busy server.
_QUIET_S = 0.001
_SECOND = 1.0
# Without descriptors for more clients, the listeners are left alone for so long.
_NO_DESCRIPTORS_S = 0.1
_WARN_EVERY_S = 60.0
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Limits(Protocol):
    """The settings that the loop looks at each time, since they may change."""

    timeout: int
    client_output_buffer_limit: int
    client_query_buffer_limit: int


class Loop:
    """Turns, until `stopping`.

    Args:
        runner: makes what runs the commands; takes `poke` and `close`.
        counts: what is counted.
        limits: the settings.
        each_second: what else is to be done now and then.
        sweep: removes what has expired, as far as a moment allows; says when it is to be called again.
    """

    def __init__(
        self,
        runner: Callable[..., Runner],
        counts: Counts,
        limits: Limits,
        *,
        each_second: Callable[[float], None],
        sweep: Callable[[float], float],
    ) -> None:
        self._counts, self._limits, self._each_second, self._sweep = counts, limits, each_second, sweep
        self._poller, self._receiver = Poller(), Receiver(_RECEIVE_BYTES)
        self.connections: dict[int, Connection] = {}
        self.by_id: dict[int, Connection] = {}  # in the order in which they came, which is that of IDs
        self._listeners: dict[int, tuple[socket.socket, Callable[[socket.socket], None]]] = {}
        self._resting_until: float | None = None
        self._behind: list[Connection] = []
        self._outdated: list[Connection] = []  # whose parsers have limits that were changed
        self._parser: Callable[[], Parser] | None = None  # makes one with those that count
        self._poked, self._poke = socket.socketpair()
        for end in (self._poked, self._poke):
            end.setblocking(False)
        self._poller.register(self._poked.fileno(), READ)
        self.runner = runner(poke=self.poke, close=self.close)
        self.stopping = False
        self._warned = -_WARN_EVERY_S
        self._tls_told: dict[str, float] = {}  # by reason, of which OpenSSL has so many and no more
        self._second = self._sweep_at = 0.0

    # --- what it listens to -------------------------------------------------------------------------------------------

    def listen(self, listener: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        """Accepts clients of a listening socket; `accepted` gets each."""
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, accepted)
        self._poller.register(listener.fileno(), READ)

    @property
    def resting(self) -> bool:
        """Whether it accepts nobody for the moment, for want of descriptors."""
        return self._resting_until is not None

    def add(self, connection: Connection) -> None:
        """Takes a client in."""
        self.connections[connection.fd] = self.by_id[connection.caller.id] = connection
        self._poller.register(connection.fd, READ)

    def limit_requests(self, parser: Callable[[], Parser]) -> None:
        """Takes changed limits of requests into use for those who are connected; `parser` makes one with them.

        Who has sent a part of a request keeps the old ones until the rest has come, as far as the limit of what is kept
        allows: that one ends the connection within a second.
        """
        self._parser, self._outdated = parser, list(self.connections.values())
        self._replace_parsers()

    def _replace_parsers(self) -> None:
        outdated, self._outdated = self._outdated, []
        for connection in outdated:
            parser = connection.parser
            if connection.closed or self._parser is None:
                continue
            if not (parser.buffered_bytes or parser.held_back or parser.limit_passed or parser.error is not None):
                connection.take_parser(self._parser())
            elif parser.buffered_bytes > self._limits.client_query_buffer_limit:
                self._close_over_limit(connection)
            else:
                self._outdated.append(connection)

    def poke(self) -> None:
        """Wakes the loop. Safe from any thread, and from a signal."""
        with contextlib.suppress(OSError):  # full of pokes, or closed
            self._poke.send(b"!")

    # --- turns --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Turns until `stopping`, and sends what can be sent of the last one's replies."""
        while not self.stopping:
            self.turn()

    def turn(self) -> None:
        """One turn; waits for something to do."""
        runner = self.runner
        events = self._poller.ready(self._patience())
        runner.now = now = time.monotonic()
        arrived = self._take(events, now)
        if arrived:
            self._counts.turns += 1
            runner.run(arrived)
        elif not events and runner.waiters.count and not runner.bells.listening:
            runner.bells.listen()
        if self._behind:
            self._look_behind()
        self._serve(now)
        runner.run_resumed()
        runner.settle()  # also where nobody is to be answered
        while runner.dirty:
            dirty, runner.dirty = runner.dirty, []
            if len(dirty) > 1:
                dirty.reverse()  # whose wait has ended hears of it before who has ended it
                self._send_all(dirty)
            else:
                self._send(dirty[0])
            runner.run_resumed()  # who could not be sent to before
            runner.settle()
        if self._behind and not all(each.held() or (each.ended and each.out) for each in self._behind):
            self.poke()  # what held them up is over

    def _take(self, events: list[tuple[int, int]], now: float) -> Arrived:
        """What came from those that are ready."""
        arrived: Arrived = []
        connections = self.connections
        for fd, mask in events:
            connection = connections.get(fd)
            if connection is None:
                self._other(fd)
                continue
            if mask != READ and not self._is_to_be_read(connection, mask):
                continue
            try:
                size, commands, has_more = self._receive(connection, now)
            except MemoryError as error:
                self.runner.close_for_memory(connection, error)
                continue
            if size <= 0:
                if not size:
                    self.close(connection)
                continue
            self._counts.bytes_in += size
            connection.caller.last_used = now
            if connection.waiter is not None or connection.paused:
                self._set_mask(connection, HANGUP)  # what came is kept; more is not taken before that is run
            if has_more:
                self._behind.append(connection)
            if commands:
                arrived.append((connection, commands))
        return arrived

    def _is_to_be_read(self, connection: Connection, mask: int) -> bool:
        """Whether something came, once what else is ready was seen to."""
        if mask & (GONE | HANGUP) and not mask & READ:
            self.close(connection)
            return False
        if mask & WRITE:
            self._send(connection)
        return bool(mask & READ) and not connection.closed

    def _patience(self) -> float:
        """Seconds for which the poller may sleep."""
        runner = self.runner
        waits, pause_ends = runner.waiters.count, runner.pause_ends()
        now = time.monotonic() if waits or pause_ends or self._resting_until else runner.now
        if waits and not runner.bells.listening:
            until = min(self._second, self._sweep_at, runner.waiters.next_due(), now + _QUIET_S)
        else:
            until = min(self._second, self._sweep_at, runner.waiters.next_due())
        if pause_ends is not None:
            until = min(until, pause_ends)
        if self._resting_until is not None:
            until = min(until, self._resting_until)
        return max(0.0, until - now)

    def _serve(self, now: float) -> None:
        """Whoever waits for something that has come, or for a time that has come."""
        runner = self.runner
        if runner.waiters.count:
            changed = runner.bells.changed(runner.waiters)
            if changed:
                runner.waiters.serve(changed, now)
            runner.waiters.serve_due(now)
        runner.end_pause(now)
        if self._resting_until is not None and self._resting_until <= now:
            self._resting_until = None
            for fd in self._listeners:
                self._poller.register(fd, READ)
        if self._second <= now:
            self._second = now + _SECOND
            runner.waiters.serve(runner.bells.stale(runner.waiters), now)
            self._close_idle(now)
            self._replace_parsers()
            self._each_second(now)
        if self._sweep_at <= now:
            self._sweep_at = self._sweep(now)

    def _other(self, fd: int) -> None:
        if fd == self._poked.fileno():
            with contextlib.suppress(BlockingIOError):
                while self._poked.recv(4096):
                    pass
            return
        found = self._listeners.get(fd)
        if found is not None and self._resting_until is None:
            self._accept(*found)

    def _accept(self, listener: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        for _ in range(64):  # and back to those that are connected
            try:
                client, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    _LOG.warning("could not accept a client: %s", error)
                    return
                self._warn_of_descriptors(error)
                self._resting_until = time.monotonic() + _NO_DESCRIPTORS_S
                for fd in self._listeners:
                    self._poller.unregister(fd)
                return
            accepted(client)

    def _warn_of_descriptors(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            _LOG.warning("no descriptors for more clients: %s", error)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _receive(self, connection: Connection, now: float) -> tuple[int, Commands, bool]:
        """What came: as `Receiver.receive`, which it is from all who are not behind TLS."""
        known = connection.caller.user is not None
        if connection.clogged or connection.backlog:
            self._keep(connection, now)
            return -1, [], False
        if connection.plain is not None:
            return self._receiver.receive(connection.fd, connection.plain, known)
        parser = connection.parser
        try:
            data = connection.receive(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return -1, [], False
        except OSError as error:
            if isinstance(error, TlsError):
                self._tell_of_tls(connection, str(error), now)
            return 0, [], False
        commands = parser.feed(data, known)
        return len(data), commands, parser.error is not None or parser.held_back or parser.limit_passed

    def _tell_of_tls(self, connection: Connection, reason: str, now: float) -> None:
        """Logs why there is no TLS with a client: it sees its connection end, often without a reason."""
        if now - self._tls_told.get(reason, -_WARN_EVERY_S) >= _WARN_EVERY_S:
            self._tls_told[reason] = now
            _LOG.warning("closing %s: no TLS with it: %s", connection, reason)

    def _keep(self, connection: Connection, now: float) -> None:
        """Takes what a client sends that does not read its replies: many send a whole pipeline before they read."""
        try:
            data = connection.receive(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close(connection)
            return
        if not data and not (connection.backlog or connection.pending or connection.out):
            self.close(connection)
            return
        if not data:  # it may read on, and is heard out; then its end comes once more
            connection.ended = True
            self._behind.append(connection)
            self._settle(connection)
            return
        self._counts.bytes_in += len(data)
        connection.caller.last_used = now
        if not connection.backlog:
            self._behind.append(connection)
        connection.backlog += data
        if len(connection.backlog) >= self._limits.client_query_buffer_limit:
            self._settle(connection)  # no more is taken before some of it is run

    def _look_behind(self) -> None:
        """Those whose parser had more to say, once the commands before it have run."""
        behind, self._behind = self._behind, []
        for connection in dict.fromkeys(behind):
            try:
                self._look_at(connection)
            except MemoryError as error:
                self.runner.close_for_memory(connection, error)

    def _look_at(self, connection: Connection) -> None:
        parser = connection.parser
        if connection.backlog and not connection.held() and not connection.pending:
            piece = bytes(connection.backlog[:_RECEIVE_BYTES])  # and no more in a turn: there are others
            del connection.backlog[:_RECEIVE_BYTES]
            self.runner.run([(connection, parser.feed(piece, connection.caller.user is not None))])
            if connection.mask & READ == 0:
                self._settle(connection)
        elif connection.ended and not (connection.held() or connection.pending or connection.out):
            connection.ended = False
            self._settle(connection)
        # Its size may depend on what ran just now, or is kept to be run.
        while parser.held_back and not (connection.held() or connection.pending):
            self.runner.run([(connection, parser.feed(b"", connection.caller.user is not None))])
        if connection.closed or connection.closing:  # after QUIT, what follows is nobody's
            return
        if parser.limit_passed:
            self._close_over_limit(connection)
        elif parser.error is not None and (connection.held() or connection.pending):
            self._behind.append(connection)  # what came before it is answered first
        elif parser.error is not None:
            self._counts.protocol_errors += 1
            if connection.caller.reply_mode == "on":  # who wants no replies would take it for one to a later command
                connection.give(ErrorReply(parser.error))
            self.end(connection)
        elif parser.held_back or connection.backlog or connection.ended:
            self._behind.append(connection)

    def _close_over_limit(self, connection: Connection) -> None:
        self._counts.query_limit += 1
        _LOG.warning("closing %s: its request is over the limit", connection)
        self.close(connection)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send_all(self, connections: list[Connection]) -> None:
        """Sends what is to be sent to each: in one call to those with one small reply, as most have."""
        plain: list[Connection] = []
        replies: list[bytes] = []
        for connection in connections:
            only = connection.only
            if only is None:
                self._send(connection)
            else:
                plain.append(connection)
                replies.append(only)
        if not plain:
            return
        now, total = self.runner.now, 0
        sizes = send_each([each.fd for each in plain], replies)
        for connection, reply, sent in zip(plain, replies, sizes, strict=True):
            connection.dirty, connection.only = False, None
            if sent < len(reply):
                if sent < 0:
                    self.close(connection)
                    continue
                connection.out += reply[sent:]
            total += sent
            connection.caller.last_used = now
            if connection.out or connection.mask != READ or connection.closing or connection.pending:
                self._settle(connection)
        self._counts.bytes_out += total

    def _send(self, connection: Connection) -> None:
        connection.dirty = False
        if connection.closed:
            return
        try:
            sent = connection.flush()
        except OSError:
            self.close(connection)
            return
        except MemoryError as error:
            self.runner.close_for_memory(connection, error)
            return
        if sent:
            self._counts.bytes_out += sent
            connection.caller.last_used = self.runner.now
        if connection.out or connection.mask != READ or connection.closing or connection.clogged or connection.pending:
            self._settle(connection)

    def _settle(self, connection: Connection) -> None:
        """Closes it where it is time to, and else sets what it waits for."""
        if connection.closed:
            return
        waiting = len(connection.out)
        if connection.closing and not waiting:
            self.close(connection)
            return
        limit = self._limits.client_output_buffer_limit
        if connection.caller.user is None:
            limit = min(limit or UNKNOWN_OUT_BYTES, UNKNOWN_OUT_BYTES)
        if limit and waiting > limit:
            self._counts.output_limit += 1
            _LOG.warning("closing %s: it does not read, and %d bytes wait for it", connection, waiting)
            self.close(connection)
            return
        if waiting > SOFT_OUT_BYTES:
            connection.clogged = True
        elif connection.clogged and waiting <= SOFT_OUT_BYTES // 2:
            connection.clogged = False
            self.runner.resumed.append(connection)
        full = connection.ended or len(connection.backlog) >= self._limits.client_query_buffer_limit
        reads = not (full or connection.closing)
        if connection.caller.user is None or not (connection.clogged or connection.backlog):
            reads = reads and not connection.clogged and not (connection.held() and connection.pending)
        heard_out = connection.ended and connection.waiter is None  # who waits and has gone is given nothing any more
        self._set_mask(connection, (READ if reads else 0) | (WRITE if waiting else 0) or (0 if heard_out else HANGUP))

    def _set_mask(self, connection: Connection, mask: int) -> None:
        if mask != connection.mask:
            connection.mask = mask
            self._poller.modify(connection.fd, mask)

    # --- ending -------------------------------------------------------------------------------------------------------

    def end(self, connection: Connection) -> None:
        """Closes a connection once all its replies are sent."""
        connection.closing = True
        if not connection.dirty:
            connection.dirty = True
            self.runner.dirty.append(connection)

    def close(self, connection: Connection) -> None:
        """Closes a connection at once."""
        if connection.closed:
            return
        connection.closed = True
        self.runner.let_go(connection)
        self.connections.pop(connection.fd, None)
        self.by_id.pop(connection.caller.id, None)
        with contextlib.suppress(OSError, ValueError):
            self._poller.unregister(connection.fd)
        connection.sock.close()
        connection.pending.clear()
        connection.backlog.clear()
        connection.only = None
        connection.replies.clear()
        connection.out.clear()

    def _close_idle(self, now: float) -> None:
        timeout = self._limits.timeout
        if not timeout:
            return
        for connection in list(self.connections.values()):
            if connection.waiter is not None or connection.paused or connection.replies:
                continue
            if now - connection.caller.last_used > timeout:
                self._counts.idle += 1
                _LOG.info("closing %s: idle for %d s", connection, timeout)
                self.close(connection)

    def stop(self) -> None:
        """Sends what can be sent, and closes everything."""
        self.runner.settle()
        for connection in list(self.connections.values()):
            with contextlib.suppress(OSError):
                connection.flush()
            self.close(connection)
        self.runner.bells.stop()
        self._listeners.clear()
        self._poller.close()
        self._poked.close()
        self._poke.close()
