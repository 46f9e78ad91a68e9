"""Chance, the clock and the boot under control, so that a seed gives the same trace again."""

import contextlib
import random
import secrets
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from unittest import mock

from diskstream import store as stores
from diskstream.engine import page, state
from diskstream.engine.flags import Flag
from diskstream.engine.keeper import Keeper
from diskstream.engine.log import StreamLog

__all__ = ["START_MS", "StillKeeper", "World"]

START_MS = 1_700_000_000_000


def _says_nothing(_dead: stores.Store) -> None:
    pass


class StillKeeper(Keeper):
    """The store's background, which works only when it is told to."""

    def __init__(
        self,
        logs: Callable[[], Iterable[StreamLog]],
        interval_ms: int | None,
        *,
        seals: bool,
        notice: Callable[[StreamLog], None],  # retention works only when it is told to, too
    ) -> None:
        self._logs, self._seals, self.interval_ms = logs, seals, interval_ms
        self._notice = lambda _: None
        self._stop = Flag()
        self.last_error = None

    def begin(self) -> None:
        """There is no thread to start."""

    def rolled(self) -> None:
        """Sealing comes with the next `tick`."""

    def end(self) -> None:
        """The disk of a simulation goes with its process: nothing of it is to be flushed."""

    def stop(self) -> None:
        """There is no thread to end."""

    def tick(self) -> None:
        """What is done about once a second."""
        self._each(self._attend)
        self._complain()

    def flush(self) -> None:
        """What is done once an interval."""
        self._each(self._flush_one)
        self._complain()

    def _complain(self) -> None:
        if self.last_error is not None:
            raise self.last_error


class World(contextlib.AbstractContextManager["World"]):
    """Makes everything that a store takes from its surroundings a matter of a seed.

    Attributes:
        now_ms: what the clock of `Options` says.
    """

    def __init__(self, seed: str) -> None:
        self.now_ms = START_MS
        self._chance = random.Random(seed)
        self._boot = bytes(16)
        self._patches = contextlib.ExitStack()
        self.reboot()

    def clock(self) -> int:
        """The time, in milliseconds since 1970."""
        return self.now_ms

    def reboot(self) -> None:
        """The machine starts anew."""
        self._boot = self._chance.randbytes(16)

    @property
    def boot(self) -> bytes:
        """Which boot it is."""
        return self._boot

    def reseed(self, seed: str) -> None:
        """Goes on with other chance."""
        self._chance = random.Random(seed)

    def __enter__(self) -> Self:
        replaced: list[tuple[object, str, object]] = [
            (page, "boot_id", lambda: self._boot),
            (state, "boot_id", lambda: self._boot),
            (secrets, "token_hex", lambda size=32: self._chance.randbytes(size).hex()),
            (secrets, "randbits", self._chance.getrandbits),
            (uuid, "uuid4", lambda: uuid.UUID(bytes=self._chance.randbytes(16), version=4)),
        ]
        for where, name, replacement in replaced:
            self._patches.enter_context(mock.patch.object(where, name, replacement))
        # A store that is left unclosed is that of a process that died: nobody says so, and nobody closes it.
        self._patches.enter_context(mock.patch.object(stores.Store, "__del__", _says_nothing))
        self._patches.callback(self._forget, set(stores._STORES))
        self._patches.enter_context(mock.patch("diskstream.store.Keeper", StillKeeper))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._patches.close()

    def _forget(self, before: set[stores.Store]) -> None:
        for store in set(stores._STORES) - before:
            store._closed = True
