"""What the processes of a crowd note: a line before each operation and one after it, each with the monotonic clock.

A process that is killed within an operation leaves the first line only: nobody knows then what became of it. A line
that was cut in two by a kill is none. All processes of a machine share one monotonic clock, so that journals can be
compared.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diskstream import EntryID

__all__ = ["NEVER", "SERVED", "Journal", "Op", "as_number", "ids_of", "packed", "read_journals", "shown"]

NEVER = 1 << 62
# The first note of whose commands somebody else carries out, a server or a thread: what is cut off may yet be done.
SERVED = "served"
_SEQ_BITS = 64
_SEQ_MASK = (1 << _SEQ_BITS) - 1


class Journal:
    """What one life of a role notes."""

    def __init__(self, folder: Path, role: str, life: int) -> None:
        self.role, self.life = role, life
        self._fd = os.open(folder / f"{role}.{life}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _line(self, *values: object) -> None:
        os.write(self._fd, json.dumps(values, separators=(",", ":")).encode() + b"\n")

    @contextmanager
    def op(self, word: str, **about: Any) -> Iterator[dict[str, Any]]:
        """An operation: what is put into the dictionary is noted when it has returned, and nothing where it raises."""
        result: dict[str, Any] = {}
        self._line("b", time.monotonic_ns(), word, about)
        yield result
        self._line("d", time.monotonic_ns(), result)

    def note(self, word: str, **about: Any) -> None:
        """Something that has happened, at once."""
        with self.op(word, **about):
            pass


@dataclass(slots=True)
class Op:
    """An operation of one life of a role.

    Attributes:
        end: when it had returned; None where it was cut off.
        latest: what it did, it did before this.
    """

    role: str
    life: int
    begin: int
    word: str
    about: dict[str, Any]
    end: int | None = None
    latest: int = NEVER
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether nobody knows what became of it."""
        return self.end is None

    def __str__(self) -> str:
        """Short enough for a line."""
        about = json.dumps(self.about)[:150]
        return f"{self.role}.{self.life} {self.word} {about} [{self.begin}..{self.end}]"


def _lines(path: Path) -> Iterator[list[Any]]:
    text = path.read_bytes()
    for line in text[: text.rfind(b"\n") + 1].splitlines():
        yield json.loads(line)


def read_journal(path: Path) -> list[Op]:
    """The operations of one life, in order."""
    role, _, life = path.name.rpartition(".")
    ops: list[Op] = []
    for line in _lines(path):
        if line[0] == "b":
            if ops and ops[-1].cut and not _is_served(ops):
                ops[-1].latest = line[1]
            ops.append(Op(role, int(life), line[1], line[2], line[3]))
        else:
            ops[-1].end = ops[-1].latest = line[1]
            ops[-1].result = line[2]
    return ops


def _is_served(ops: list[Op]) -> bool:
    return ops[0].word == SERVED


def read_journals(folder: Path) -> list[Op]:
    """All that everybody noted, in the order in which it began. A life that was cut off did nothing after its end."""
    lives = {path.name: read_journal(path) for path in sorted(folder.iterdir())}
    for op in lives.get("supervisor.0", []):
        if op.word == "dead":
            ended = lives.get(f"{op.about['role']}.{op.about['life']}")
            if ended and ended[-1].cut and not _is_served(ended):
                ended[-1].latest = op.begin
    return sorted((op for ops in lives.values() for op in ops), key=lambda op: op.begin)


# --- IDs, short in journals and quick to compare ----------------------------------------------------------------------


def packed(ids: Iterable[EntryID]) -> str:
    """IDs as text: milliseconds as the difference to the ID before."""
    parts, before = [], 0
    for entry_id in ids:
        parts.append(f"{entry_id.ms - before}.{entry_id.seq}")
        before = entry_id.ms
    return " ".join(parts)


def ids_of(text: str) -> list[int]:
    """The numbers of `packed` IDs."""
    numbers, ms = [], 0
    for part in text.split():
        delta, _, seq = part.partition(".")
        ms += int(delta)
        numbers.append(ms << _SEQ_BITS | int(seq))
    return numbers


def as_number(entry_id: EntryID | str) -> int:
    """An ID as a number that compares as it does."""
    given = EntryID(entry_id) if isinstance(entry_id, str) else entry_id
    return int(given.ms) << _SEQ_BITS | int(given.seq)


def shown(number: int) -> str:
    """The ID as everybody writes it."""
    return f"{number >> _SEQ_BITS}-{number & _SEQ_MASK}"
