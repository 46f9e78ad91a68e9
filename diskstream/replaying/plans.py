"""What is being replayed, written down with the target: so that a second run goes on, and no other one is mixed up."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from diskstream.checked_json import checked, with_check
from diskstream.errors import ArgumentError, ChangedError, NewerFormatError
from diskstream.ids import EntryID
from diskstream.store_files import Files, unless_done
from diskstream.system_calls import lock_now, read_small, wrapped

__all__ = ["Plan", "PlanFile"]

_FILE: Final = "replay.json"
_FORMAT: Final = 1
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What is being replayed.

    Attributes:
        source: the store's directory.
        stream: the stream's name; a byte that is not UTF-8 is a lone surrogate.
        asked: the range, in the words of whoever asked.
        where: the conditions.
        ids: ``keep`` or ``new``.
        target: where to, without a password.
        start, end: the first and the last ID, as they were when the replay began.
        complete: whether it is done.
        identity: of the stream, in hexadecimal; empty where a version wrote it that did not look.
    """

    source: str
    stream: str
    asked: tuple[str, ...]
    where: tuple[str, ...]
    ids: str
    target: str
    start: str
    end: str
    complete: bool = False
    identity: str = ""

    @property
    def name(self) -> str:
        """What tells it from other replays, where no name was given: the same words give the same name."""
        facts = [self.source, self.stream, self.asked, self.where, self.ids, self.target]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def within(self) -> tuple[EntryID, EntryID]:
        """The first and the last ID."""
        return EntryID(self.start), EntryID(self.end)

    def as_json(self) -> str:
        """The plan as it is written down."""
        return json.dumps(with_check({"format": _FORMAT, **asdict(self)}))

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> "Plan":
        """Reads one.

        Raises:
            ChangedError: it cannot be read.
            NewerFormatError: a later version wrote it.
        """
        try:
            found = checked(text)
            version = int(found.pop("format"))
            if version > _FORMAT:
                raise NewerFormatError(where, "the plan of the replay", _FORMAT, version)
            known = {each.name for each in fields(cls)}  # what else there is would have another format if it mattered
            given = {name: found[name] for name in found if name in known}
            return cls(**{**given, "asked": tuple(found["asked"]), "where": tuple(found["where"])})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ChangedError(where, f"its plan of this replay cannot be read: {error}", _ANOTHER) from error

    def check_same(self, other: "Plan") -> None:
        """Refuses to go on with another replay under this one's name.

        Raises:
            ArgumentError: it is another.
            ChangedError: the stream that was replayed was removed, and another made under its name.
        """
        for what in ("source", "stream", "asked", "where", "ids", "target"):
            ours, theirs = getattr(self, what), getattr(other, what)
            if ours != theirs:
                raise ArgumentError(
                    f"a replay of this name has another {what}: {theirs!r}, not {ours!r}; give this one another name"
                )
        if self.identity and other.identity and self.identity != other.identity:
            what = f"the stream {self.stream} was removed and made anew since the replay began"
            raise ChangedError(self.source, what, "replay what it is now under another --name")


_ANOTHER: Final = "give the replay another --name"


class PlanFile:
    """The plan in a store that is replayed to."""

    def __init__(self, store: Path, writer: bytes) -> None:
        self._folder = store / "replays" / hashlib.sha256(writer).hexdigest()
        self._files = Files()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else runs this replay meanwhile.

        Raises:
            ChangedError: somebody does.
        """
        for folder in (self._folder.parent, self._folder):
            self._files.mkdir(folder)
            self._files.sync_dir(folder.parent)
        with wrapped(self._folder, "open"):
            fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not lock_now(fd, self._folder):
                hint = "let it end, then run this again: it goes on where that one stopped"
                raise ChangedError(str(self._folder), "another run of this replay is at work", hint)
            yield
        finally:
            os.close(fd)

    def read(self) -> Plan | None:
        """What an earlier run wrote down; None where there was none."""
        path = self._folder / _FILE
        try:
            with wrapped(path, "read"):
                return Plan.from_json(read_small(path, _MAX_BYTES), str(path))
        except FileNotFoundError:
            return None

    def write(self, plan: Plan) -> None:
        """Writes it down, durably.

        Raises:
            StorageError: the disk said no.
        """
        temporary = self._folder / f"{_FILE}.{secrets.token_hex(8)}.tmp"
        with unless_done(self._files, temporary):
            with self._files.create(temporary) as new:
                new.write(plan.as_json().encode())
                new.sync()
            self._files.rename(temporary, self._folder / _FILE)
        self._files.sync_dir(self._folder)
