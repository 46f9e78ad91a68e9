"""A repair in a process that kills itself: ``python -m tests.repair.dying STORE CALL`` dies in that call to `Files`."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskstream
from diskstream.engine.files import Files

__all__: list[str] = []

_CHANGES = {"create", "rename", "link", "unlink", "mkdir", "rmdir", "sync_dir", "open_log"}


class _Dying(Files):
    """Counts the calls that change something."""

    left = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _CHANGES:
            return found
        call: Callable[..., Any] = found

        def counted(*arguments: Any, **more: Any) -> Any:
            type(self).left -= 1
            if type(self).left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return counted


if __name__ == "__main__":
    _Dying.left = int(sys.argv[2])
    for _ in diskstream.repair(Path(sys.argv[1]), files=_Dying()):
        pass
