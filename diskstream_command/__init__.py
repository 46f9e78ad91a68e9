"""The `diskstream` command from its first moment on: Ctrl-C while modules load ends it without a word.

It stands beside the package, since whatever is in `diskstream` is reached only when all of that package is loaded.
"""

import signal
import sys


def main(name: str | None = None) -> None:
    """Run the command, by another name than its file's where one is given.

    Who has SIGINT ignored, or a handler of their own, keeps that.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
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
