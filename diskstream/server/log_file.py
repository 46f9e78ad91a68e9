"""The file of the log, which whoever rotates logs may move away."""

import contextlib
import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler

__all__ = ["LogFile"]


class LogFile(WatchedFileHandler):
    """Appends what is logged to a file, for its owner to write and his group to read.

    One that was moved away or removed is made anew under its name before the next line, as Redis does it: what rotates
    its logs gives no signal. A line that the file does not take goes to standard error.

    Args:
        path: the file's; it is made where there is none.

    Raises:
        OSError: it cannot be made or opened.
    """

    def _open(self) -> TextIOWrapper:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640))
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line. Raises nothing: who logs has something else to do."""
        try:
            super().emit(record)
        except OSError:  # it cannot be made anew: the next line tries again
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Says a line that could not be written where somebody may see it: logging shows its own stack instead."""
        with contextlib.suppress(OSError, ValueError):
            if sys.stderr is not None:
                sys.stderr.write(f"{self.format(record)}\n")
