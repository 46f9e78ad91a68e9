"""The `diskstream` command from its first moment on: Ctrl-C while modules load ends it without a word.

It stands beside the package, since whatever is in `diskstream` is reached only when all of that package is loaded.
"""

import signal
import sys
from types import FrameType


def begin() -> None:
    """Let Ctrl-C end this without a word if it is `python -m diskstream`, which loads the package before `__main__`."""
    # While Python looks for a module, "-m" stands in the place of its file.
    is_ours = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in {"diskstream", "-mdiskstream"}
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature is the system's
    """What SIG_DFL does, but `main` knows it from a SIG_DFL that somebody else set."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def main(name: str | None = None) -> None:
    """Run the command, by another name than its file's where one is given.

    Who has SIGINT ignored, or a handler of their own, keeps that.
    """
    interruptible = signal.getsignal(signal.SIGINT) in {signal.default_int_handler, _end}
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun yet: the system may end it anywhere
    from diskstream.cli import main as command

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(1)
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is done: the interpreter clears up
