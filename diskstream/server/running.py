"""Running the commands of a turn, in the order in which they came."""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from diskstream.commands.arguments import as_int
from diskstream.commands.caller import Transaction
from diskstream.commands.introspection import keys_of
from diskstream.commands.key_copies import database_named
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import ErrorReply, Failure, Map, Raw, Reply
from diskstream.commands.table import Command
from diskstream.commands.waiters import Key, Waiters
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import AddRun, CommandRun
from diskstream.errors import DiskstreamError
from diskstream.server.acknowledging import AckBatch
from diskstream.server.batching import AddBatch
from diskstream.server.bells import BellThread
from diskstream.server.connection import SOFT_OUT_BYTES, Connection
from diskstream.server.counts import Counts
from diskstream.server.group_reading import ReadBatch
from diskstream.server.looking import Looks
from diskstream.server.parts import Parts
from diskstream.server.pausing import Pause
from diskstream.server.poller import READ

__all__ = ["Arrived", "Commands", "Runner"]

Run = AddRun | CommandRun
Commands = Sequence[list[bytes] | Run]
Arrived = list[tuple[Connection, Commands]]

# Replies of so many bytes are encoded at once, so that a turn's replies never fill the memory.
_LARGE_BYTES = 64 << 10
# What a browser says that a page has told to talk to this machine; the commands would stand in what it posts.
_OF_A_BROWSER = frozenset({b"post", b"host:"})
_WARN_EVERY_S = 60.0
_LOG = logging.getLogger("diskstream.server")


class Runner:
    """Runs commands and collects replies.

    Args:
        parts: the commands.
        keyspace: what they work on.
        counts: what is counted.
        poke: wakes the loop; called in the thread of the bells.
        close: ends a connection at once.

    Attributes:
        dirty: who has replies to be sent.
        resumed: whose commands may go on.
        current: whose command is running.
    """

    def __init__(
        self,
        parts: Parts,
        keyspace: Keyspace,
        counts: Counts,
        *,
        poke: Callable[[], None],
        close: Callable[[Connection], None],
    ) -> None:
        self._table, self._dispatch, self._keyspace = parts.table, parts.dispatch, keyspace
        self._counts, self._close = counts, close
        self._adds, self._acks = AddBatch(keyspace, self._call), AckBatch(keyspace, self._call)
        self._reads, self._looks = ReadBatch(keyspace), Looks(keyspace)
        # The one that holds something: replies are in the order of commands.
        self._open: AddBatch | AckBatch | ReadBatch | None = None
        keyspace.put_off_flushes()
        self.waiters: Waiters[Connection] = Waiters(self._finished)
        self.bells = BellThread(keyspace, poke)
        self.dirty: list[Connection] = []
        self.resumed: list[Connection] = []
        self.current: Connection | None = None
        self.now = time.monotonic()
        self._warned = -_WARN_EVERY_S
        self._pause = Pause(self._command)

    @property
    def poisoned(self) -> bool:
        """Whether a stream takes no more writes until it is opened anew."""
        return self._keyspace.troubles.poisoned

    @poisoned.setter
    def poisoned(self, value: bool) -> None:
        self._keyspace.troubles.poisoned = value

    # --- a turn -------------------------------------------------------------------------------------------------------

    def run(self, arrived: Arrived) -> None:
        """Runs commands; those of a connection that must wait are kept with it."""
        self._looks.forget()
        for connection, commands in arrived:
            # Whose wait has just ended goes on in `run_resumed`, with what it sent before.
            if connection.held() or connection.pending:
                self._keep(connection, commands)
                continue
            try:
                if len(commands) != 1 or not self._goes_on(connection, commands[0]):
                    self._run_all(connection, commands)
            except MemoryError as error:
                self.close_for_memory(connection, error)
        self._run_batches()

    def close_for_memory(self, connection: Connection, error: MemoryError) -> None:
        """Closes whose request or reply there is no memory for: the others are served on."""
        _LOG.warning("closing %s: %s", connection, str(error) or "there is no memory for its request or reply")
        self._close(connection)

    def _run_all(self, connection: Connection, commands: Commands) -> None:
        """Runs the commands of one connection, until it must wait."""
        left = deque(commands)
        while left:
            words = left.popleft()
            if isinstance(words, list):
                if self._open is not None:
                    self._run_batches()
                    if connection.held():  # by what became of its commands before
                        left.appendleft(words)
                        self._keep(connection, left)
                        return
                self._run_one(connection, words)
            elif self._run_together(connection, words):
                pass  # all of it, or what is left of it is kept: then what stands behind it is, too
            elif connection.held():
                left.appendleft(words)
            else:
                left.extendleft(reversed(words.commands()))
            if connection.held():
                self._keep(connection, left)
                return

    @staticmethod
    def _keep(connection: Connection, commands: Iterable[list[bytes] | Run]) -> None:
        """Keeps what must not run yet, behind what is kept already."""
        if not connection.closed and not connection.closing:
            connection.pending.extend(commands)

    def _goes_on(self, connection: Connection, run: list[bytes] | Run) -> bool:
        """Takes all that one has sent into the batch under way: so it goes for most, where many do the same.

        What `_run_together` would do, without the way there. False leaves it to that, and nothing was done. Nobody
        waits for the one stream of a batch: it was begun as nobody did, and who begins to wait ends it before.
        """
        batch = self._open
        if not self._may_batch(connection):
            return False
        if batch is None:
            return type(run) is CommandRun and self._look_again(connection, run)
        if type(run) is not batch.kind:
            return False
        if not batch.take(connection, run):  # type: ignore[arg-type]  # of its kind, as was seen above
            return False
        connection.caller.last_command = batch.name
        return True

    def _look_again(self, connection: Connection, run: CommandRun) -> bool:
        """Answers XLENs of a stream whose length is known; else False."""
        reply = self._looks.again(connection.caller.database, run)
        if reply is None:
            return False
        self._counts.commands += run.lengths
        connection.caller.last_command = "xlen"
        self._answer_each((connection,), (reply,))
        return True

    def _run_together(self, connection: Connection, run: Run) -> bool:
        """Runs a run as one, now or with those of others; False where its commands must be run one by one, or later."""
        caller = connection.caller
        batch: AddBatch | AckBatch | ReadBatch
        if isinstance(run, AddRun):
            batch = self._adds
        elif run.name == "xack":
            batch = self._acks
        elif run.name == "xreadgroup":
            batch = self._reads
        else:
            self._run_batches()
            if connection.held() or not self._may_batch(connection) or not self._look(connection, run):
                return False
            caller.last_command = run.name
            return True
        if self._open is not batch:
            self._run_batches()
        place = caller.database, run.key
        while not connection.held() and self._may_batch(connection):
            if batch is not self._acks and place in self.waiters:  # an acknowledgement ends no wait
                return isinstance(run, AddRun) and self._add_one(connection, run, place)
            if batch.take(connection, run):  # type: ignore[arg-type]  # of its kind, as was seen above
                self._open, caller.last_command = batch, batch.name
                return True
            self._run_batches()
        return False

    def _add_one(self, connection: Connection, run: AddRun, place: Key) -> bool:
        """Adds an entry that somebody waits for, who is served before anything else runs; else False."""
        if len(run) > 1:
            return False
        self._run_batches()
        self._adds.take(connection, run)
        self._open, connection.caller.last_command = self._adds, "xadd"
        self._run_batches()
        self.bells.pass_over([place])
        self.waiters.serve([place], self.now)
        return True

    def _may_batch(self, connection: Connection) -> bool:
        """Whether commands may be run as one.

        Those that may end a wait, besides, only where nobody waits for the key: each before the next is run.
        """
        caller = connection.caller
        ready = caller.transaction is None and caller.user is not None and caller.reply_mode == "on"
        return ready and not self._pause.until

    def _look(self, connection: Connection, run: CommandRun) -> bool:
        """Answers a run that changes nothing; False where its commands must be run one by one."""
        done, count = 0, len(run)
        while done < count and not connection.held():
            found = self._looks.look(connection.caller.database, run, done)
            if found is None:
                if not done:
                    return False
                break
            reply, answered = found
            self._counts.commands += answered - done
            done = answered
            self._answer_each((connection,), (reply,))
        if done < count:
            self._run_rest(connection, run.rest(done))
        return True

    def run_resumed(self) -> None:
        """Goes on with the commands of those who need not wait any more."""
        while self.resumed:
            resumed, self.resumed = self.resumed, []
            arrived: Arrived = []
            for connection in resumed:
                if connection.closed:
                    continue
                if not connection.dirty:  # so that it is read from again
                    connection.dirty = True
                    self.dirty.append(connection)
                if not connection.held() and connection.pending:
                    commands, connection.pending = list(connection.pending), type(connection.pending)()
                    arrived.append((connection, commands))
            self.run(arrived)

    def _run_batches(self) -> None:
        while self._open is not None:
            self._looks.forget()
            batch, self._open = self._open, None
            if isinstance(batch, ReadBatch):
                self._run_reads()
                continue
            count, troubles = len(batch), self._keyspace.troubles
            self._counts.commands += count
            adds = batch is self._adds
            if count > 1 and adds:
                self._counts.batched += count
            connections, replies, are_bytes = batch.run()
            if adds and troubles.writes_fail and replies and (are_bytes or type(replies[-1]) is Raw):
                troubles.wrote()
            if are_bytes:
                self._answer_each(connections, replies)
                continue
            for connection, reply in zip(connections, replies, strict=True):
                self._answer(connection, reply)

    def _run_reads(self) -> None:
        """What is left of each run when it was served: kept, for another call, or run one by one, to wait perhaps."""
        all_served, more = self._reads.run()
        for connection, run, count, reply in all_served:
            self._counts.commands += count
            if count:
                self._answer_each((connection,), (reply,))
            if count == len(run):
                continue
            rest = run.rest(count) if count else run
            if more and not connection.held():
                self._reads.take(connection, rest)  # it is empty, or holds others of the same kind
                self._open = self._reads
            else:
                self._run_rest(connection, rest)

    def _run_rest(self, connection: Connection, run: CommandRun) -> None:
        """Runs the commands of a run one by one, until the connection must wait."""
        left: deque[list[bytes] | Run] = deque([run] if connection.held() else run.commands())
        while left and not connection.held():
            words = left.popleft()
            assert isinstance(words, list)
            self._run_one(connection, words)
        self._keep(connection, left)

    def _call(self, connection: Connection, words: list[bytes]) -> Reply:
        return self._dispatch(self._table, connection.caller, words)

    def _run_one(self, connection: Connection, words: list[bytes]) -> None:
        caller = connection.caller
        if self._pause.holds(connection, words):
            return
        self._counts.commands += 1
        self._looks.forget()
        transaction, mode = caller.transaction, caller.reply_mode
        watched = self._written(transaction, caller.database, words) if self.waiters.count else ()
        if mode == "skip":
            caller.reply_mode = "skipping"
        self.current = connection
        try:
            reply = self._dispatch(self._table, caller, words)
        finally:
            self.current = None
        if caller.protocol != connection.protocol:  # whether or not its HELLO is answered
            connection.encode()
            connection.protocol = caller.protocol
        if type(reply) is ErrorReply and words[0].lower() in _OF_A_BROWSER:
            self._turn_away(connection)
        elif isinstance(reply, Waiting):
            self._wait(connection, reply)
        elif mode == "on" and caller.reply_mode == "on":
            self._answer(connection, reply)
        else:
            self._answer_by_mode(connection, words, reply)
        if watched:
            self.bells.pass_over(watched)
            self.waiters.serve(watched, self.now)

    def _turn_away(self, connection: Connection) -> None:
        """Closes who speaks HTTP, before what a page made a browser post is taken for commands."""
        self._counts.protocol_errors += 1
        if self.now - self._warned >= _WARN_EVERY_S:
            self._warned = self.now
            _LOG.warning("closing %s: it speaks HTTP. A web page may be trying to use this server", connection)
        self._close(connection)

    def _answer_by_mode(self, connection: Connection, words: list[bytes], reply: Reply) -> None:
        """CLIENT REPLY: OFF and SKIP are not answered, and SKIP swallows the reply of the next command too.

        An EXEC in which it was said has left out already what is not answered.
        """
        caller = connection.caller
        if caller.reply_mode == "on" or (type(reply) is Raw and words[0].lower() == b"exec"):
            self._answer(connection, reply)
        if caller.reply_mode == "skipping":  # and was not told OFF, or SKIP once more, by this very command
            caller.reply_mode = "on"

    def _answer_each(self, connections: Sequence[Connection], replies: Sequence[bytes]) -> None:
        """Gives each of several a reply, or several, that are the bytes of the wire already."""
        dirty = self.dirty
        for connection, reply in zip(connections, replies, strict=True):
            if connection.dirty or connection.out or connection.plain is None or len(reply) > _LARGE_BYTES:
                self._answer(connection, Raw(reply))
            elif not connection.closed:
                connection.only, connection.dirty = reply, True
                dirty.append(connection)

    def _answer(self, connection: Connection, reply: Reply) -> None:
        if connection.closed:
            return
        if connection.only is None:
            connection.replies.append(reply)
        else:
            connection.give(reply)
        if not connection.dirty:
            connection.dirty = True
            self.dirty.append(connection)
        kind = type(reply)
        if kind is Raw:
            connection.reply_bytes += len(reply.data)
        elif kind is bytes or kind is str:
            connection.reply_bytes += len(reply)
        elif kind is list or kind is tuple or kind is Map:
            connection.reply_bytes += _LARGE_BYTES + 1  # how large it is shows when it is encoded
        if connection.reply_bytes > _LARGE_BYTES:
            try:
                connection.encode()
            except MemoryError as error:
                self.close_for_memory(connection, error)
                return
            if len(connection.out) > SOFT_OUT_BYTES:
                self._send_early(connection)

    def settle(self) -> None:
        """Makes durable what the replies of this turn rest on: none leaves before.

        Where that fails nobody is told anything: what became of the commands is not known before the stream is opened
        anew, as after a server that died.
        """
        try:
            self._keyspace.settle()
        except (DiskstreamError, OSError) as error:
            _LOG.error("%s; closing %d clients without an answer", error, len(self.dirty))  # expected
            self.poisoned = True
            for connection in self.dirty:
                self._close(connection)

    def _send_early(self, connection: Connection) -> None:
        self.settle()
        if connection.closed:
            return
        try:
            self._counts.bytes_out += connection.flush()
        except OSError:
            self._close(connection)
            return
        except MemoryError as error:
            self.close_for_memory(connection, error)
            return
        connection.clogged = len(connection.out) > SOFT_OUT_BYTES

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, connection: Connection, waiting: Waiting) -> None:
        self._counts.waits += 1
        waiter = self.waiters.add(connection, waiting, self.now)
        # A key that nobody listened for may have been written since the command looked.
        for fresh in self.bells.add_each(waiter.places(), is_list=not waiting.rings):
            if fresh:
                self.waiters.serve(fresh, self.now)
            if connection.waiter is not waiter:
                return

    def watch_again(self) -> None:
        """After stores were opened anew: listens to the same keys, and looks at all of them."""
        keys = list(self.waiters.keys())
        for key in keys:
            self.bells.add(key, is_list=self.bells.is_list(key))
        self.waiters.serve(keys, self.now)

    def _finished(self, connection: Connection, reply: Reply) -> None:
        """A wait has ended."""
        connection.caller.last_used = self.now
        if connection.caller.reply_mode == "on":
            self._answer(connection, reply)
        elif connection.caller.reply_mode == "skipping":
            connection.caller.reply_mode = "on"
        if connection.pending or connection.mask != READ:
            self.resumed.append(connection)

    def _written(self, transaction: Transaction | None, database: int, words: list[bytes]) -> list[Key]:
        """The keys that a command may write, to the end of a wait, and that somebody waits for."""
        if transaction is None:
            return self._written_by(words, database)
        if words[0].lower() != b"exec":
            return []
        found: dict[Key, None] = {}
        for queued in transaction.queue:
            if queued[0].lower() == b"select" and len(queued) > 1:
                with contextlib.suppress(Failure):  # it will be told so
                    database = as_int(queued[1])
            found.update(dict.fromkeys(self._written_by(queued, database)))
        return list(found)

    def _written_by(self, words: list[bytes], database: int) -> list[Key]:
        command = self._command(words)
        if command is None or not command.ends_waits or "write" not in command.flags or "blocking" in command.flags:
            return []
        keys = keys_of(command, words)
        if not keys:
            return list(self.waiters.keys())  # FLUSHALL, SWAPDB and the like
        databases = {database: None, database_named(words, database): None}
        return [place for each in databases for key in keys if (place := (each, key)) in self.waiters]

    def _command(self, words: list[bytes]) -> Command | None:
        command = self._table.get(words[0].decode("latin-1").lower())
        if command is not None and command.subcommands and len(words) > 1:
            return command.subcommands.get(words[1].decode("latin-1").lower())
        return command

    # --- CLIENT PAUSE -------------------------------------------------------------------------------------------------

    def pause(self, until: float, *, writes_only: bool) -> None:
        """As `Host.pause`."""
        now = time.monotonic()
        self._pause.begin(until, now, writes_only=writes_only)
        self.end_pause(now)

    def pause_ends(self) -> float | None:
        """When, by `time.monotonic`; None where there is no pause."""
        return self._pause.until or None

    def end_pause(self, now: float) -> None:
        """Lets those go on whom it held back, once it is over."""
        if self._pause.until:
            self.resumed += self._pause.end(now)

    def let_go(self, connection: Connection) -> None:
        """Forgets a client that is gone."""
        self.waiters.drop(connection)
        self._pause.forget(connection)
