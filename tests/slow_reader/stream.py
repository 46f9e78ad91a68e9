"""A stream directory: which files belong to it, its state, its live entries. docs/format/directory.md."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.slow_reader import layouts
from tests.slow_reader.log import Frame, Log, rows
from tests.slow_reader.sealed import Sealed
from tests.slow_reader.state import Meta, State
from tests.slow_reader.wire import Entry, FormatError, NewerError, RottenError

__all__ = ["SlowStream"]

_FILE = re.compile(r"(?P<number>[0-9]{8})(?:\.log|(?:\.g(?P<generation>[1-9][0-9]*))?\.seg)")


class SlowStream:
    """The files of a stream, which nobody changes meanwhile.

    Attributes:
        state: the state behind the last frame: `last_id`, `greatest_deleted`, `entries_added`, `listed`, `active`.
        torn: where the tail of the active log is torn, or None.
        logs: the log files there are, by number.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.torn: FormatError | None = None
        named = {path.name: _FILE.fullmatch(path.name) for path in directory.iterdir()}
        logs = sorted(name for name in named if name.endswith(".log"))
        if not logs:
            raise FormatError(directory, 0, "a log file", "none")
        active = int(Path(logs[-1]).stem)
        for name, match in named.items():
            if match is not None and name.endswith(".seg") and int(match["number"]) >= active:
                raise RottenError(directory / name, 0, f"no sealed segment from {active} on", name)
        self.logs = {int(Path(name).stem): Log(directory / name) for name in logs if named[name] is not None}
        self.log = self.logs[active]
        self.frames, self.state = self._follow(self.log, rolled=False)
        self._check_chain()

    def _follow(self, log: Log, *, rolled: bool) -> tuple[list[Frame], State]:
        """All frames of a log, and the state behind the last one."""
        state = State(log.path, log.segment, log.snapshot)
        if not state.uuid == log.uuid == self.log.uuid:
            raise FormatError(log.path, 16, self.log.uuid, (log.uuid, state.uuid))
        frames = [log.snapshot]
        while True:
            try:
                frame = log.next(frames[-1])
            except NewerError:
                raise
            except FormatError as error:
                claim = log.claim(frames[-1].end, frames[-1].lsn + 1)
                if rolled or claim is not None or log.synced > frames[-1].lsn:
                    raise RottenError(log.path, error.offset, f"what was durable (says {claim})", error) from error
                self.torn = error
                return frames, state
            if frame is None:
                if log.synced > frames[-1].lsn:
                    raise RottenError(log.path, frames[-1].end, f"frames up to {log.synced}", "zeros")
                return frames, state
            try:
                state.apply(frame)
            except NewerError:
                raise
            except FormatError as error:
                raise RottenError(log.path, frame.offset, "a frame that can be applied", error) from error
            frames.append(frame)

    def _check_chain(self) -> None:
        """The chain across segments: a rolled log ends in the frame before the snapshot of the next one."""
        for number, following in pairwise(sorted(self.logs)):
            if following == number + 1:
                last, snapshot = self.rolled(number)[0][-1], self.logs[following].snapshot
                if (last.lsn + 1, last.crc) != (snapshot.lsn, snapshot.chain):
                    expected = f"frame {snapshot.lsn - 1} with checksum {snapshot.chain:08x}"
                    raise RottenError(self.logs[number].path, last.offset, expected, f"{last.lsn} with {last.crc:08x}")

    def rolled(self, number: int) -> tuple[list[Frame], State]:
        """All frames of a rolled log, and the state behind its last one."""
        return self._follow(self.logs[number], rolled=True)

    def __len__(self) -> int:
        return self.state.length()

    def entries(self) -> Iterator[Entry]:
        """The live entries in order."""
        last = None
        for meta, stored in self._segments():
            position = 0
            for entry_id, pairs in stored:
                if last is not None and entry_id <= last:
                    raise FormatError(self.directory, 0, f"an ID above {last}", entry_id)
                last = entry_id
                if meta.is_live(position):
                    yield entry_id, pairs
                position += 1
            _same(self.directory, (meta.number, meta.entries), (meta.number, position))

    def _segments(self) -> Iterator[tuple[Meta, Iterator[Entry]]]:
        for meta in self.state.listed:
            yield meta, self._stored(meta)
        yield self.state.active, _rows_of(self.frames)

    def _stored(self, meta: Meta) -> Iterator[Entry]:
        """The entries of a listed segment, from whichever file has them."""
        sealed = self.sealed(meta)
        if sealed is not None:
            return sealed.read()
        if meta.generation > 0 or meta.number not in self.logs:
            raise FormatError(self.directory, 0, f"a file of segment {meta.number}", "none")
        frames, state = self.rolled(meta.number)
        _same(self.logs[meta.number].path, _fixed(meta), _fixed(state.active))
        return _rows_of(frames)

    def sealed(self, meta: Meta) -> Sealed | None:
        """The sealed file of a listed segment, held against the list; None where there is none."""
        generation = f".g{meta.generation}" if meta.generation else ""
        path = self.directory / f"{meta.number:08d}{generation}.seg"
        if not path.exists():
            return None
        sealed = Sealed(path)
        _same(path, (self.log.uuid, meta.number, meta.generation), (sealed.uuid, sealed.number, sealed.generation))
        _same(path, _fixed(meta)[:5], (sealed.entries, sealed.first, sealed.last, *sealed.times))
        if sealed.copy and meta.number + 1 in self.logs and not meta.generation:
            snapshot = self.logs[meta.number + 1].data[layouts.FIRST_FRAME :]
            _same(path, snapshot[: len(sealed.copy)], sealed.copy)
        return sealed


def _rows_of(frames: list[Frame]) -> Iterator[Entry]:
    for frame in frames:
        if frame.kind == layouts.ENTRIES:
            yield from rows(frame)


def _fixed(meta: Meta) -> tuple[object, ...]:
    """What of a segment does not change any more."""
    return meta.entries, meta.first, meta.last, meta.least_time, meta.greatest_time, meta.size


def _same(path: Path, expected: object, found: object) -> None:
    if expected != found:
        raise FormatError(path, 0, expected, found)
