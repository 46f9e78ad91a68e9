"""The `diskstream` command. One file a verb, a folder for the verbs of one thing; each is loaded when it is called.

What is asked for goes to standard output, everything else to standard error. Exit status: 0 done, 1 failed (one line
`error:`, and `hint:` where there is a way out), 2 wrong usage. Whoever reads standard output and goes before all is
written ends a command with 1, without a word. `NO_COLOR` is heeded.
"""

from __future__ import annotations

import errno
import importlib
import os
from difflib import get_close_matches
from typing import Any

import click

import diskstream
from diskstream.cli.failure import Failure
from diskstream.cli.standard_files import OUTPUT, buffer_output, check_open, fill_closed, forget_output, print_anything
from diskstream.cli.stopping import told_to_end
from diskstream.errors import storage_error

_MODULES = {
    "add": "add",
    "archive": "archive",
    "backup": "backup",
    "bench": "bench",
    "cold": "cold",
    "compact": "compact",
    "completion": "completion",
    "consumer": "consumer",
    "count": "count",
    "del": "delete",
    "demo": "demo",
    "export": "export_files",
    "group": "group",
    "import": "import_files",
    "info": "info",
    "inspect": "inspect",
    "len": "length",
    "ls": "ls",
    "range": "range",
    "rename": "rename",
    "repair": "repair",
    "replay": "replay",
    "restore": "restore",
    "retention": "retention",
    "rm": "rm",
    "seal": "seal",
    "serve": "serve",
    "spark": "spark",
    "tail": "tail",
    "top": "top",
    "trim": "trim",
    "verify": "verify",
}

# What becomes of work that SIGINT or SIGTERM ended.
_AGAIN = {
    "backup": "run it again: it takes over what was copied",
    "backup prune": "run it again: what was removed is",
    "backup verify": "run it again",
    "cold fetch": "run it again: what was fetched is",
    "cold move": "run it again: what was moved is",
    "compact": "run it again: what was compacted is",
    "export": "run it again: nothing is at its place before it is whole, and files of parts that are there stay",
    "import": "run it again: it goes on where it stopped",
    "repair": "run it again: it finishes what was begun",
    "restore": "run it again: nothing is at its place before it is whole",
    "seal": "run it again: what was sealed is",
    "verify": "run it again",
}


# The first two words: a verb of those of one thing.
_CALLED = "diskstream.called"

# Options that all verbs have, or nearly all, and an example of what follows them.
_OF_VERBS = {"-d": " STORE", "--dir": " STORE", "--json": ""}

# A shell sets it where it asks what may come next.
_COMPLETING = "_DISKSTREAM_COMPLETE"

# They do nothing but print: with nowhere to print to they have failed.
_ONLY_PRINT = {"count", "info", "inspect", "len", "ls", "range", "tail", "top"}
_ONLY_PRINT |= {"backup ls", "cold ls", "consumer ls", "group info", "group ls", "group pending", "retention show"}

_NO_MEMORY = "see what bounds it (ulimit -v, the container), or ask for less at once; nothing acknowledged is lost"


class _Verbs(click.Group):
    """Loads a verb's module when it is named, and turns errors of the library into a message and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the signature is click's
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the signature is click's
        if cmd_name not in _MODULES:
            return None
        command = importlib.import_module(f"diskstream.cli.{_MODULES[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        meant = get_close_matches(args[0], _MODULES, n=1)
        if args[0] not in _MODULES and meant and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant[0]!r}?", ctx)
        if not _ONLY_PRINT.isdisjoint((args[0], " ".join(args[:2]))) and not ctx.resilient_parsing:
            check_open()
        ctx.meta[_CALLED] = " ".join(args[:2])
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        fill_closed()
        buffer_output()
        print_anything()
        if _COMPLETING in os.environ:
            importlib.import_module("diskstream.cli.completing_bash").register()
        with told_to_end():
            return super().main(*args, **extra)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except OSError as error:  # --help and --version print before anything is invoked
            raise _failed(error) from error
        except click.NoSuchOption as error:
            if error.option_name not in _OF_VERBS:
                raise
            shown = f"{error.option_name} stands behind the verb: diskstream ls {error.option_name}"
            raise click.UsageError(f"{shown}{_OF_VERBS[error.option_name]}", error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            hint = _AGAIN.get(ctx.meta.get(_CALLED, ""), _AGAIN.get(ctx.invoked_subcommand or ""))
            raise Failure("it was stopped before it was done", hint=hint) from None
        except diskstream.InvalidIDError as error:
            raise click.UsageError(f"{error.given} is no ID, such as 1714521600000-0 or 1714521600000", ctx) from error
        except diskstream.DiskstreamError as error:
            forget_output()
            raise Failure(str(error), hint=getattr(error, "hint", None)) from error
        except MemoryError as error:
            forget_output()
            raise Failure(str(error) or "there is no memory for this", hint=_NO_MEMORY) from error
        except OSError as error:
            raise _failed(error) from error


def _failed(error: OSError) -> Exception:
    """What ends a verb that the system did not let go on; whoever read and has had enough ends it without a word."""
    forget_output()  # of which the interpreter would speak at its end
    if isinstance(error, BrokenPipeError):
        return error
    if error.filename == OUTPUT:
        return Failure(str(storage_error(OUTPUT, "write to", error.errno or errno.EIO, str(error.strerror))))
    where = "" if error.filename is None else f"{error.filename}: "
    ours = storage_error(where, "open", error.errno or errno.EIO, str(error))
    return Failure(f"{where}{error.strerror or error}", hint=getattr(ours, "hint", None))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(diskstream.__version__, prog_name="diskstream")
def main() -> None:
    """Redis Streams on disk: look into a store, feed it, check it.

    The store is named by --dir or by the environment variable DISKSTREAM_DIR.
    """
