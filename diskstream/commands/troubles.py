"""What whoever runs a server must know of and its clients alone are told: writes that fail, data that is damaged."""

import logging
import time
from collections.abc import Callable

__all__ = ["Troubles"]

_LOG = logging.getLogger("diskstream.server")
# What goes on is told of again after so long; of so many kinds, as more would be somebody's doing.
_AGAIN_S = 60.0
_MOST_KINDS = 64
# A disk that is nearly full takes a small write between two that it refuses: only this much later do writes go on.
_QUIET_S = 1.0
_UNWRITABLE = b"MISCONF "
_POISONED = b"takes no more writes"
_FAILED = b"ERR could not "  # as every `StorageError` begins
_DAMAGED = b" met damaged data: "


class Troubles:
    """Tells the log, each kind once a minute.

    Attributes:
        writes_fail: whether the disk refuses writes: none was done since, but within a second of a refusal.
        poisoned: whether a stream takes no more writes until it is opened anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.writes_fail = self.poisoned = False
        self._clock = clock
        self._told_at: dict[bytes, float] = {}
        self._is_told = False
        self._refused_at = 0.0

    def met(self, text: bytes) -> None:
        """Takes note of an error that a client is told."""
        if text.startswith(_UNWRITABLE):
            self.writes_fail, self._refused_at = True, self._clock()
            # Whichever way it was asked: in a transaction, in a run of commands, by who wants no replies.
            self.poisoned = self.poisoned or _POISONED in text
            # One kind, whichever stream it is: a full disk refuses all of them.
            if self._is_news(_UNWRITABLE):
                self._is_told = True
                _LOG.error("writes fail: %s", text.removeprefix(_UNWRITABLE).decode("utf-8", "replace"))
        elif _DAMAGED in text:
            what = text.partition(_DAMAGED)[2]
            if self._is_news(what):
                _LOG.error("damaged: %s", what.decode("utf-8", "replace"))
        elif text.startswith(_FAILED) and self._is_news(text):
            _LOG.error("failed: %s", text.removeprefix(b"ERR ").decode("utf-8", "replace"))

    def wrote(self) -> None:
        """Something was written: the disk takes writes again, unless it refused one just now."""
        if self._clock() - self._refused_at < _QUIET_S:
            return
        self.writes_fail = False
        if self._is_told:
            self._is_told = False
            _LOG.warning("writes go on")

    def _is_news(self, kind: bytes) -> bool:
        now = self._clock()
        if now - self._told_at.get(kind, now - _AGAIN_S) < _AGAIN_S:
            return False
        if len(self._told_at) >= _MOST_KINDS:
            self._told_at = {each: at for each, at in self._told_at.items() if now - at < _AGAIN_S}
        if len(self._told_at) >= _MOST_KINDS:
            return False
        self._told_at[kind] = now
        return True
