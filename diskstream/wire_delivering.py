"""What a group does with commands as they came over the wire: pipelines of XREADGROUP and XACK, of many clients."""

import contextlib
from typing import TYPE_CHECKING, cast

from diskstream._native import Block, CommandRun
from diskstream.acknowledging import acknowledge_by
from diskstream.delivering import SEALED, VIEW, has_more, next_blocks
from diskstream.engine import reader
from diskstream.engine.fetching import fetching_outside
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.errors import NoGroupError, ReadOnlyError
from diskstream.membership import as_member_name, consumer_number, group_number, locked, now_ms
from diskstream.taking import finish

if TYPE_CHECKING:
    from diskstream.group import Group
    from diskstream.stream import Stream

__all__ = ["Answers", "WireGroup"]

# Entries that one call looks for, at most: what is beyond is left for the next.
_MOST_ENTRIES = 4096

# Of each run how many of its commands were answered and the replies to them; and whether there is more for the others.
Answers = tuple[list[tuple[int, bytes]], bool]


class WireGroup:
    """The part of `Group` that takes commands as they came over the wire."""

    if TYPE_CHECKING:
        stream: "Stream"
        name: bytes

    def ack_runs(self, runs: list[CommandRun]) -> list[bytes]:
        """Acknowledges what runs of XACK name, of one client or several, in one frame.

        Returns:
            The replies to each run: how many of each command's IDs were pending. An ID that two name counts for the
            first.
        """

        if len(runs) == 1 and len(runs[0]) == 1:
            done = finish(cast("Group", self), runs[0].ids())
            if done is not None:
                return [b":%d\r\n" % done]

        def acknowledge(log: StreamLog) -> list[bytes] | None:
            group = log.native.group_number(self.name)
            if group is None:
                return None
            return acknowledge_by(
                log,
                group,
                lambda: [entry_id for run in runs for entry_id in run.ids()],
                lambda asked: log.native.acknowledge_runs(group, runs, now_ms(log), asked),
            )

        found = self.stream._use(lambda log: locked(log, acknowledge), None)
        return [b":0\r\n" * len(run) for run in runs] if found is None else found

    def read_runs(self, readers: list[tuple[CommandRun, bool]]) -> Answers | None:
        """Gives consumers what their runs of XREADGROUP ask for, in order, in one frame, as far as there is something.

        Args:
            readers: the runs, and whether the replies are for RESP3. What they say of waiting is not looked at.

        Returns:
            The answers: a command that finds nothing has none, nor has any behind it. None where others wait for the
            group's entries, and nothing was given.

        Raises:
            NoGroupError: there is no such stream, or no such group.
            StorageError: the disk said no.
        """
        stream, owner = self.stream, cast("Group", self)
        if stream._store.read_only:
            raise ReadOnlyError(str(stream._store.path))
        for run, _ in readers:
            as_member_name("consumer", run.consumer)
        found: list[Answers | None] | None = stream._use(lambda log: [_read_runs(log, owner, readers)], None)
        if found is None:
            raise NoGroupError(stream.name, self.name)
        return found[0]


def _read_runs(log: StreamLog, owner: "Group", readers: list[tuple[CommandRun, bool]]) -> Answers | None:
    answers = fetching_outside(log, lambda: _read_runs_held(log, owner, readers))
    # Nothing is given out that a power cut may take back. Whoever moved the stream has flushed it.
    with contextlib.suppress(StreamMoved):
        log.settle()
    return answers


def _read_runs_held(log: StreamLog, owner: "Group", readers: list[tuple[CommandRun, bool]]) -> Answers | None:
    with log.locked():
        log.prepare()
        group = group_number(log, owner)
        if log.ctl.promised(group, None):
            return None
        answers = _deliver(log, group, readers)
        if answers[0][0][0] and has_more(log, group):
            log.ctl.wake_queue(1, group)
        log.pending.relieve()
    return answers


def _deliver(log: StreamLog, group: int, readers: list[tuple[CommandRun, bool]]) -> Answers:
    numbers = {name: consumer_number(log, group, name) for name in dict.fromkeys(run.consumer for run, _ in readers)}
    given = [(numbers[run.consumer], run, resp3) for run, resp3 in readers]
    limit = min(sum(run.total for run, _ in readers), _MOST_ENTRIES)
    first, now = reader.first_id(log), now_ms(log)
    blocks: list[Block] | None = None
    asked = cut = False
    while True:
        code, answers, more = log.native.deliver_runs(group, given, blocks, limit, cut, first, now, asked)
        if code == 0:
            # Where nothing was found there is nothing: blocks whose entries are all gone say no less than that.
            return answers, more and any(count for count, _ in answers)
        if code in (SEALED, VIEW):
            blocks = next_blocks(log, group, limit, enough=readers[0][0].first_count)
            cut = True  # so that what is not among them is asked for again
            if code == VIEW:
                log.pending.learn(group, [entry.id for block in blocks for entry in block.entries()])
                asked = True
        else:
            log.resolve(code, held=True)
            asked = False  # a roll begins the overlays anew
