"""A process that moves segments, to be killed while it does."""

import os
import signal
import sys
import threading
from pathlib import Path

from diskstream.cold import bring_back, move_out
from diskstream.engine.files import Files
from tests.cold.world import SMALL
from tests.engine.children import say


class Counted(Files):
    """Kills this process before the change of the disk with that number."""

    def __init__(self, last: int) -> None:
        self.left = last

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()

    def create(self, path):  # type: ignore[no-untyped-def]  # as the base class has it
        self._count()
        return super().create(path)

    def rename(self, source, target):  # type: ignore[no-untyped-def]  # as the base class has it
        self._count()
        super().rename(source, target)

    def unlink(self, path):  # type: ignore[no-untyped-def]  # as the base class has it
        self._count()
        super().unlink(path)

    def sync_dir(self, path):  # type: ignore[no-untyped-def]  # as the base class has it
        self._count()
        super().sync_dir(path)


def work(path: str, place: str, last: int, back: bool) -> None:
    """Moves all that may go, or brings it back, and is killed before the change with number `last`."""
    import diskstream

    files = Files()
    with diskstream.open(path, files=files, **SMALL) as store:
        stream = store.stream("x")
        stream.info()
        files.__class__ = Counted  # from here on
        files.left = last  # type: ignore[attr-defined]  # it is one by now
        if back:
            bring_back(stream)
        else:
            move_out(stream, place, older_than_ms=0)
        files.__class__ = Files
    say("done")
    sys.stdout.flush()


def killed_putting(path: str, place: str, what: str) -> None:
    """Moves all that may go, and is killed when it has written an object, or a record, that has no name yet."""
    import diskstream
    from diskstream import object_on_disk

    name = object_on_disk._name

    def killed(temporary: Path, target: Path) -> None:
        if (target.suffix == ".json") == (what == "its record"):
            os.kill(os.getpid(), signal.SIGKILL)
        name(temporary, target)

    object_on_disk._name = killed
    with diskstream.open(path, **SMALL) as store:
        move_out(store.stream("x"), place, older_than_ms=0)
