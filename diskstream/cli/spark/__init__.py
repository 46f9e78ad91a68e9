"""`diskstream spark`: jobs that run on Spark. One file a verb; pyspark is imported when one is called."""

from __future__ import annotations

import importlib

import click

_MODULES = {"profile": "profile", "rollup": "rollup"}


class _Verbs(click.Group):
    """Loads a verb's module when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 the signature is click's
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        command = importlib.import_module(f"diskstream.cli.spark.{_MODULES[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command


@click.group("spark", cls=_Verbs)
def command() -> None:
    """Jobs over whole streams, on Spark: on this machine, or with --master on a cluster."""
