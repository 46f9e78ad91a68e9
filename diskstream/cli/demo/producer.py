"""The process that feeds streams with telemetry, as fast as it comes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from time import monotonic_ns

import diskstream
from diskstream.cli.demo.board import Board, Word
from diskstream.cli.demo.sequence import NUMBER, SAMPLED_AT, last_number
from diskstream.cli.telemetry import ALL, MEMORY, Pairs, Sampler, Telemetry

BURST = 32
"""Samples that are taken before the streams of several rows a sample are appended to."""


class Feed:
    """Feeds one stream. Each entry carries its number, which goes on from the newest that the stream has."""

    def __init__(self, store: diskstream.Store, telemetry: Telemetry, sampler: Sampler, board: Board) -> None:
        self._name = telemetry.name
        self._stream = store.stream(telemetry.name)
        self._sampler = sampler
        self._board = board
        self._number = last_number(self._stream)
        board.set(self._name, Word.ACKNOWLEDGED, self._number)
        board.set(self._name, Word.PENDING, 0)

    def burst(self) -> None:
        """Take a burst of samples and append them together."""
        rows = [row for _ in range(BURST) for row in self._numbered_sample()]
        if rows:
            self._append(rows)

    def singles(self) -> None:
        """Take as many samples, and append each by itself."""
        for _ in range(BURST):
            for row in self._numbered_sample():
                self._append([row])

    def _numbered_sample(self) -> list[Pairs]:
        now = b"%d" % monotonic_ns()
        rows = []
        for row in self._sampler.sample():
            self._number += 1
            rows.append([(NUMBER, b"%d" % self._number), (SAMPLED_AT, now), *row])
        return rows

    def _append(self, rows: list[Pairs]) -> None:
        board, name = self._board, self._name
        board.set(name, Word.PENDING, len(rows))
        started = monotonic_ns()
        if len(rows) == 1:
            self._stream.add(rows[0])
        else:
            self._stream.add_many(rows)
        board.add(name, Word.APPEND_NS, monotonic_ns() - started)
        board.add(name, Word.APPENDED, len(rows))
        board.set(name, Word.ACKNOWLEDGED, self._number)
        board.set(name, Word.PENDING, 0)


def produce(directory: Path, names: tuple[str, ...], board: Board) -> None:
    """Feed the named streams until the board says stop."""
    with ExitStack() as stack:
        store = stack.enter_context(diskstream.open(directory))
        steps = []
        for telemetry in ALL:
            if telemetry.name in names:
                feed = Feed(store, telemetry, stack.enter_context(Sampler(telemetry)), board)
                steps.append(feed.singles if telemetry is MEMORY else feed.burst)
        while not board.producers_stop:
            for step in steps:
                step()
