"""A server that is away for a while: loading, started anew, or behind a connection that broke. Who follows waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from diskstream.archiving.server import Server
from diskstream.errors import RemoteError
from diskstream.redis_link import is_passing

__all__ = ["Outage", "reached", "rest_s"]

_REST_S = 0.1
_LONGEST_REST_S = 30.0
_MOST_DOUBLED = 10  # 0.1 s doubled so often is above the longest rest


def rest_s(tries: int) -> float:
    """How long to rest before the next try, after so many: twice as long each time, up to the longest."""
    return min(_LONGEST_REST_S, _REST_S * (1 << min(tries, _MOST_DOUBLED)))


class Outage:
    """Between a server's last answer and its next one: what was said of it, and how often it was tried."""

    def __init__(self, stop: threading.Event, say: Callable[[str], None] | None) -> None:
        """Nothing is the matter yet.

        Args:
            stop: ends a rest.
            say: told what is the matter, once, and that it is over.
        """
        self._stop, self._say = stop, say or (lambda _: None)
        self._tries, self._said = 0, ""

    def rest(self, error: RemoteError) -> bool:
        """Rests before the next try. Returns whether there is to be one.

        Raises:
            RemoteError: this one, since it does not pass by waiting.
        """
        if not is_passing(error):
            raise error
        if str(error) != self._said:
            self._said = str(error)
            self._say(f"{error}; it is waited for, and asked again at least every {_LONGEST_REST_S:,.0f} s")
        self._tries += 1
        return not self._stop.wait(rest_s(self._tries))

    def over(self) -> None:
        """All that was to be done with the server was done."""
        if self._said:
            self._say("the source answers again: it goes on where it was")
        self._tries, self._said = 0, ""


def reached(url: str, stop: threading.Event, say: Callable[[str], None]) -> Server | None:
    """The server, once it answers; None where it was told to stop before.

    Raises:
        ArgumentError: no such address.
        RemoteError: it answers, and refuses us.
    """
    outage = Outage(stop, say)
    while not stop.is_set():
        try:
            server = Server(url)
        except RemoteError as error:
            if outage.rest(error):
                continue
            break
        outage.over()
        return server
    return None
