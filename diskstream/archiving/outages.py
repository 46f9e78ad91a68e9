"""A server that is away for a while: loading, started anew, or behind a connection that broke. Who follows waits."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

from diskstream.archiving.server import Server
from diskstream.errors import RemoteError
from diskstream.redis_link import is_passing

__all__ = ["Outage", "PutOff", "reached", "rest_s"]

_REST_S = 0.1
_LONGEST_REST_S = 30.0
_HELD_S = 30.0  # what breaks off sooner is the same outage still
_MOST_DOUBLED = 10  # 0.1 s doubled so often is above the longest rest


def rest_s(tries: int) -> float:
    """How long to rest before the next try, after so many: twice as long each time, up to the longest."""
    return min(_LONGEST_REST_S, _REST_S * (1 << min(tries, _MOST_DOUBLED)))


class PutOff:
    """A trim that was refused for a reason that passes: why, and when it is to be tried again."""

    def __init__(self) -> None:
        """Nothing was put off yet."""
        self.why = ""
        self._times, self._until = 0, 0.0

    def by(self, error: RemoteError) -> None:
        """It was refused, once more."""
        self._times += 1
        self.why, self._until = str(error), time.monotonic() + rest_s(self._times)

    def rests(self) -> bool:
        """Whether it is too soon to try again."""
        return time.monotonic() < self._until


class Outage:
    """Between a server's last answer and its next one: what was said of it, and how often it was tried."""

    def __init__(
        self,
        stop: threading.Event,
        say: Callable[[str], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is the matter yet.

        Args:
            stop: ends a rest.
            say: told what is the matter, once, and that it is over.
            clock: seconds that only go forward.
        """
        self._stop, self._say, self._clock = stop, say or (lambda _: None), clock
        self._tries, self._said, self._said_at = 0, "", 0.0
        self._is_told = False  # that it is away, and not yet that it is back
        self._back_at: float | None = None

    def rest(self, error: RemoteError) -> bool:
        """Rests before the next try. Returns whether there is to be one.

        Raises:
            RemoteError: this one, since it does not pass by waiting.
        """
        if not is_passing(error):
            raise error
        now = self._clock()
        if self._back_at is not None and now - self._back_at >= _HELD_S:
            self._tries, self._said = 0, ""
        self._back_at = None
        if str(error) != self._said or (not self._is_told and now - self._said_at >= _HELD_S):
            self._said, self._said_at, self._is_told = str(error), now, True
            what = f"{error}{_hint_of(error)}"
            self._say(f"{what}; it is waited for, and asked again at least every {_LONGEST_REST_S:,.0f} s")
        self._tries += 1
        return not self._stop.wait(rest_s(self._tries))

    def over(self) -> None:
        """All that was to be done with the server was done.

        Where that does not hold, the rests go on growing: each round may succeed, and what comes behind it fail.
        """
        if self._is_told:
            self._say("the source answers again: it goes on where it was")
        self._is_told, self._back_at = False, self._clock()


def _hint_of(error: RemoteError) -> str:
    """What to do, but for running it again: that is what happens."""
    return f"; {error.hint}" if error.hint and not error.hint.startswith("run this again") else ""


def _is_mistaken(error: BaseException) -> bool:
    """Whether there is no such name, or the certificate is none to trust: mostly the address is mistyped.

    A name that nobody can be asked about yet is another matter: so it is while a machine starts.
    """
    return any(
        isinstance(each, ssl.SSLCertVerificationError)
        or (isinstance(each, socket.gaierror) and each.errno != socket.EAI_AGAIN)
        for each in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def reached(url: str, stop: threading.Event, say: Callable[[str], None]) -> Server | None:
    """The server, once it answers; None where it was told to stop before.

    Raises:
        ArgumentError: no such address.
        RemoteError: it answers, and refuses us; or its name is not known, or its certificate not trusted.
    """
    outage = Outage(stop, say)
    while not stop.is_set():
        try:
            server = Server(url)
        except RemoteError as error:
            if _is_mistaken(error):
                raise
            if outage.rest(error):
                continue
            break
        outage.over()
        return server
    return None
