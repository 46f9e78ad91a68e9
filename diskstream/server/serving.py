"""The server: its listeners, its clients, its life from start to stop."""

import contextlib
import logging
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Self

from diskstream.commands.caller import Buffers, Caller
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.moments import Moment
from diskstream.errors import DiskstreamError, PoisonedError
from diskstream.plurals import number_of
from diskstream.server.accepting import Door
from diskstream.server.connection import Connection
from diskstream.server.counts import Counts, Pace
from diskstream.server.errors import ServeError
from diskstream.server.facts import facts_of, gauges_of
from diskstream.server.listeners import check_protected, close_all, open_listeners
from diskstream.server.loop import Loop
from diskstream.server.metrics import MetricsEndpoint, as_text
from diskstream.server.parts import Parts, installed
from diskstream.server.running import Runner
from diskstream.server.settings import ServerSettings
from diskstream.server.tls import context_of

__all__ = ["LOG_LEVELS", "Server"]

_LOG = logging.getLogger("diskstream.server")
LOG_LEVELS = {
    "debug": logging.DEBUG,
    "verbose": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "nothing": logging.CRITICAL + 1,
}
# Descriptors that are no clients: listeners, two for each open stream, segments being read.
_OTHER_DESCRIPTORS = 1024
# What has expired is removed for so long in a turn, and looked for so often.
_SWEEP_S, _SWEEP_EVERY_S = 0.003, 1.0
_TIDIES_EVERY_S = 3600.0


class Server:
    """A server over the store in `settings.dir`. It listens from the start; `run` serves until `stop`.

    Args:
        settings: see `ServerSettings`.
        parts: the commands and the wire; None takes those of this package.

    Raises:
        ServeError: it cannot start as it is set.
        DiskstreamError: the store cannot be opened.
    """

    def __init__(self, settings: ServerSettings, parts: Parts | None = None) -> None:
        check_protected(settings)
        self.settings, self.parts = settings, parts or installed()
        self.counts, self.counts_before = Counts(), Counts()
        self.started = time.monotonic()
        self.pace = Pace(self.counts, self.started)
        self._renews, self._tidies_at = False, 0.0
        context = context_of(settings) if settings.tls_port else None
        self._limit_descriptors()
        with contextlib.ExitStack() as opened:
            self.listeners = open_listeners(settings)
            opened.callback(close_all, self.listeners)
            self.keyspace = Keyspace(settings.dir, **settings.store_options())
            self.keyspace.moment = Moment()  # one thread runs all commands
            opened.callback(self.keyspace.close)
            for name, value in settings.as_text().items():  # what CONFIG GET says
                self.keyspace.settings.put(name, value)
            self.loop = Loop(self._runner, self.counts, settings, each_second=self._each_second, sweep=self._sweep)
            opened.callback(self.loop.stop)
            self._door = Door(settings, self.parts, self.keyspace, self.loop, self.counts, host=self, context=context)
            for each in self.listeners:
                self.loop.listen(each.sock, self._door.accepts(each))
            self.metrics: MetricsEndpoint | None = None
            if settings.metrics_port:  # below zero, which only a program can set, is a free one
                self.metrics = MetricsEndpoint(settings.metrics_bind, max(settings.metrics_port, 0), self._metrics)
                opened.callback(self.metrics.stop)
            self._opened = opened.pop_all()

    def _runner(self, **ends: object) -> Runner:
        return Runner(self.parts, self.keyspace, self.counts, **ends)  # type: ignore[arg-type]  # poke and close

    def _limit_descriptors(self) -> None:
        """As many descriptors as clients and streams need; fewer of both where the system gives no more.

        What neither may take is for what comes and goes: segments being read, directories being listed, listeners.
        """
        settings = self.settings
        wanted = settings.maxclients + 2 * settings.max_open_streams + _OTHER_DESCRIPTORS
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            best = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(best, soft), hard))
                soft = max(best, soft)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        left = soft - min(_OTHER_DESCRIPTORS, soft // 4)
        streams = max(1, min(settings.max_open_streams, (left - min(settings.maxclients, left // 2)) // 2))
        clients = max(1, min(settings.maxclients, left - 2 * streams))
        _LOG.warning("the limit of %d descriptors is enough for %d clients and %d open streams", soft, clients, streams)
        settings.maxclients, settings.max_open_streams = clients, streams

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The TCP port that it listens on; 0 where there is none."""
        return next((int(each.sock.getsockname()[1]) for each in self.listeners if each.kind == "tcp"), 0)

    def run(self) -> None:
        """Serves until `stop` is called, or a client says SHUTDOWN."""
        _LOG.info("listening on %s", ", ".join(each.name for each in self.listeners))
        self.loop.run()
        _LOG.info("stopping")

    def stop(self) -> None:
        """Ends `run` after its turn. Safe from any thread, and from a signal."""
        self.loop.stopping = True
        self.loop.poke()

    def renew_certificates(self) -> None:
        """Has the files of TLS read anew within a second, for who connects from then on. Safe from any thread.

        Where they cannot be used the server goes on with those of before, and the log says why.
        """
        self._renews = self._door.context is not None

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """While it lasts, SIGTERM and SIGINT stop the server, and SIGHUP renews certificates; for the main thread."""

        def handle(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGHUP:  # of a terminal that goes, too, which is no reason to end
                self.renew_certificates()
            else:
                self.stop()

        before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Closes clients and listeners, and makes everything durable. Closing twice is fine.

        Raises:
            StorageError: a last flush failed.
        """
        self._opened.close()

    # --- what commands ask of it: `diskstream.commands.caller.Host` ---------------------------------------------------

    def clients(self) -> list[Caller]:
        """As `Host.clients`."""
        return [each.caller for each in self.loop.by_id.values()]

    def client(self, number: int) -> Caller | None:
        """As `Host.client`."""
        found = self.loop.by_id.get(number)
        return None if found is None else found.caller

    def _connection(self, caller: Caller) -> Connection | None:
        return self.loop.by_id.get(caller.id)

    def buffers(self, caller: Caller) -> Buffers:
        """As `Host.buffers`."""
        connection = self._connection(caller)
        return Buffers() if connection is None else connection.buffers()

    def kill(self, caller: Caller) -> None:
        """As `Host.kill`."""
        connection = self._connection(caller)
        if connection is None:
            return
        if connection is self.loop.runner.current:
            self.loop.end(connection)
        else:
            self.loop.close(connection)

    def unblock(self, caller: Caller, *, with_error: bool) -> bool:
        """As `Host.unblock`."""
        connection = self._connection(caller)
        return connection is not None and self.loop.runner.waiters.unblock(connection, with_error=with_error)

    def pause(self, until: float, *, writes_only: bool) -> None:
        """As `Host.pause`."""
        self.loop.runner.pause(until, writes_only=writes_only)

    def shut_down(self) -> None:
        """As `Host.shut_down`."""
        self.stop()

    def facts(self) -> dict[str, dict[str, int | float | str]]:
        """As `Host.facts`."""
        return facts_of(self)

    def reset_counts(self) -> None:
        """As `Host.reset_counts`; what Prometheus is told only grows."""
        self.counts_before = replace(self.counts)
        self.pace.begin(time.monotonic())

    def reply_bytes(self) -> int:
        """As `Host.reply_bytes`: nobody with more than that waiting for it is kept."""
        return self.settings.client_output_buffer_limit

    def set_setting(self, name: str, value: str) -> str | None:
        """As `Host.set_setting`; what the server has nothing to do with is well."""
        if name == "appendfsync":
            self.settings.set(name, value)
            self._watch_again()  # whoever changes it has opened the stores anew
            return None
        if name not in self.settings.as_text():
            return None
        if not self.settings.can_change(name):
            return "can't be changed while the server runs"
        before = self.settings.maxclients
        try:
            self.settings.set(name, value)
        except ServeError as error:
            return str(error)
        if name in ("proto-max-bulk-len", "client-query-buffer-limit"):
            self.loop.limit_requests(self._door.parser)
        if name == "loglevel":
            _LOG.setLevel(LOG_LEVELS[value.lower()])
        if name == "maxclients":
            self._limit_descriptors()
            if (most := self.settings.maxclients) < int(value):
                self.settings.maxclients = before
                return f"The operating system is not able to handle the specified number of clients, try with {most}"
        return None

    # --- now and then -------------------------------------------------------------------------------------------------

    def _metrics(self) -> str:
        return as_text(self.counts, gauges_of(self))

    def _read_certificates(self) -> None:
        try:
            self._door.context = context_of(self.settings)
        except ServeError as error:
            _LOG.error("the certificates stay those of before: %s", error)  # expected
        else:
            _LOG.warning("read the certificates anew, for clients that come from now on")

    def _tidy(self, now: float) -> None:
        """Once an hour, what others left that were killed."""
        if now < self._tidies_at:
            return
        self._tidies_at = now + _TIDIES_EVERY_S
        with contextlib.suppress(DiskstreamError, OSError, MemoryError):  # who uses the store meets it, and is told
            if removed := self.keyspace.remove_abandoned():
                _LOG.warning("removed %s that unfinished copies left", number_of(removed, "stream"))

    def _each_second(self, now: float) -> None:
        """Opens stores anew where writes have failed: the disk may be well again. And reads renewed certificates."""
        self.pace.look(now)
        if self._renews:
            self._renews = False
            self._read_certificates()
        runner = self.loop.runner
        if not (runner.poisoned or self.keyspace.must_reopen):
            self._tidy(now)
            return
        try:
            self.keyspace.reopen()
        except (DiskstreamError, OSError, MemoryError) as error:
            _LOG.error("could not open the stores anew: %s; tried again in a second", error)  # expected
            return
        runner.poisoned = False
        _LOG.warning("opened the stores anew after a failed write")
        self._watch_again()

    def _sweep(self, now: float) -> float:
        """Removes what has expired, a moment in each turn as long as there is more. Returns when to go on."""
        runner, later = self.loop.runner, now + _SWEEP_EVERY_S
        if self.keyspace.must_reopen:
            return later
        try:
            expired = self.keyspace.expire_due(seconds=_SWEEP_S)
        except (DiskstreamError, OSError, MemoryError) as error:  # of a full disk: the stores are well
            runner.poisoned = runner.poisoned or isinstance(error, PoisonedError)
            _LOG.error("could not remove what has expired: %s; tried again in a second", error)  # expected
            return later
        if expired:
            runner.waiters.serve(expired, now)
        return now if self.keyspace.has_due() else later

    def _watch_again(self) -> None:
        """The stores are others now: their bells too."""
        self.loop.runner.bells.forget_all()
        self.loop.runner.watch_again()
