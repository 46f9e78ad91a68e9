"""What other processes append to the keys that clients wait for: a thread sleeps on the bells and wakes the loop."""

import threading
from collections.abc import Callable

from diskstream.commands.bells import Bells
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.waiters import Key

__all__ = ["BellThread"]

_LOOK_S = 1.0


class BellThread(Bells):
    """The bells, and the thread.

    The loop asks with `changed` in its turns. Only when it goes to sleep it lets the thread listen, with `listen`: so a
    server with much to do is not woken by its own writes.

    Args:
        keyspace: where the keys are.
        poke: wakes the loop; called in the thread.
    """

    def __init__(self, keyspace: Keyspace, poke: Callable[[], None]) -> None:
        super().__init__(keyspace)
        self._poke = poke
        self._listen = threading.Event()
        self._stopping = threading.Event()
        self.listening = False
        self._thread: threading.Thread | None = None

    def add(self, key: Key, *, is_list: bool = False) -> bool:
        """Watches a key: see `Bells.add`."""
        is_new = super().add(key, is_list=is_list)
        if is_new and self.listening:
            self.interrupt()  # and the thread listens anew, to this one too
        return is_new

    def listen(self) -> None:
        """Lets the thread listen until a bell rings. Where there can be none the loop goes on looking by itself."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="diskstream bells", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are too many: the next look begins it
                return
            self._thread = thread
        self.listening = True
        self._listen.set()

    def _run(self) -> None:
        while True:
            self._listen.wait()
            if self._stopping.is_set():
                return
            if self.wait(_LOOK_S):
                self._listen.clear()
                self.listening = False
                if self._stopping.is_set():
                    return  # `stop` may have said so just before it was cleared
                self._poke()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        self._listen.set()
        self.interrupt()
        if self._thread is not None:
            self._thread.join()
        self.close()
