"""A program on a terminal: what it shows there."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence

__all__ = ["shown_on_a_terminal"]


def shown_on_a_terminal(
    command: Sequence[str], environment: Mapping[str, str], *, output_too: bool = True
) -> tuple[bytes, int]:
    """What a program shows on standard error, and on standard output unless that goes nowhere; and its exit status."""
    leader, follower = pty.openpty()
    stdout = follower if output_too else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=follower, stdout=stdout, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        try:
            while piece := os.read(leader, 1 << 16):
                shown += piece
        except OSError:  # the other side is closed: so Linux says that
            pass
        finally:
            os.close(leader)
        return shown, process.wait(60)
