"""Which sockets are ready: epoll where there is one, else poll."""

import select

__all__ = ["GONE", "HANGUP", "READ", "WRITE", "Poller"]

# The numbers of epoll and poll are the same for these.
READ, WRITE, GONE = select.POLLIN, select.POLLOUT, select.POLLERR | select.POLLHUP

# The other end has closed: for clients that are not read from. Only epoll tells.
HANGUP: int = getattr(select, "EPOLLRDHUP", 0)


class Poller:
    """Descriptors, what each waits for, and a wait for all of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll = select.poll() if self._epoll is None else None
        used = self._epoll or self._poll
        assert used is not None
        self.register, self.modify, self.unregister = used.register, used.modify, used.unregister

    def ready(self, timeout_s: float) -> list[tuple[int, int]]:
        """Descriptors and what they are ready for; waits so long where none is, and for ever if below zero."""
        if self._epoll is not None:
            return self._epoll.poll(timeout_s)
        assert self._poll is not None
        return self._poll.poll(None if timeout_s < 0 else timeout_s * 1000)

    def close(self) -> None:
        """Closes the descriptor behind it."""
        if self._epoll is not None:
            self._epoll.close()
