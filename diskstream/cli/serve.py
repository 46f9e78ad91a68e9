"""`diskstream serve`: Redis Streams for any Redis client, over a store."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

import diskstream
from diskstream.cli.options import checked, json_option
from diskstream.cli.output import write_json
from diskstream.server.log_file import LogFile
from diskstream.server.serving import LOG_LEVELS, Server
from diskstream.server.settings import ServerSettings, merged, names


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each setting, without a default: what is not given is looked for elsewhere."""
    defaults = ServerSettings().as_text()
    for name, text in reversed(names().items()):
        also = {"dir": ["-d"], "appendfsync": ["--fsync"]}.get(name, [])
        shown = f"{text} [default: {defaults[name]}]" if defaults[name] else text
        metavar = "STORE" if name == "dir" else "VALUE"
        function = click.option(
            f"--{name}",
            *also,
            name.replace("-", "_"),
            metavar=metavar,
            callback=checked(partial(_check, name)),
            help=shown,
        )(function)
    return function


def _check(name: str, value: str) -> None:
    ServerSettings().set(name, _as_redis(name, value))


def _as_redis(name: str, value: str) -> str:
    """The other verbs say os for what redis.conf calls no."""
    return "no" if (name, value) == ("appendfsync", "os") else value


@click.command("serve")
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="A file in the syntax of redis.conf.")
@_options
@json_option
def command(*, config: Path | None, as_json: bool, **given: str | None) -> None:
    """Serve the store to Redis clients until SIGTERM, SIGINT or SHUTDOWN.

    An option counts more than the environment (--port is DISKSTREAM_PORT), and that more than the file.
    """
    names_given = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    chosen = {name: _as_redis(name, value) for name, value in names_given.items()}
    settings = merged(chosen, config=config)
    _log(settings)
    with Server(settings) as server, server.signals(), _frozen():
        _say(server, settings, as_json=as_json)
        server.run()


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """While it lasts, no garbage collection looks at what is there now: all clients would wait for that, for 10 ms."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _say(server: Server, settings: ServerSettings, *, as_json: bool) -> None:
    """Where it listens, once it does."""
    metrics = None if server.metrics is None else f"http://{settings.metrics_bind}:{server.metrics.port}/metrics"
    if as_json:
        listeners = [{"address": each.name, "kind": each.kind} for each in server.listeners]
        version = diskstream.__version__
        write_json(
            {
                "version": version,
                "dir": str(settings.dir),
                "listeners": listeners,
                "fsync": settings.fsync,
                "metrics": metrics,
            }
        )
        return
    where = ", ".join(f"{each.name} ({each.kind})" for each in server.listeners)
    click.echo(f"diskstream {diskstream.__version__} serves {settings.dir} at {where}, fsync {settings.fsync}")
    if metrics is not None:
        click.echo(f"metrics at {metrics}")


def _log(settings: ServerSettings) -> None:
    handler = LogFile(settings.logfile) if settings.logfile else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("diskstream.server")
    logger.addHandler(handler)
    logger.setLevel(LOG_LEVELS[settings.loglevel])
    logger.propagate = False
    for name in settings.ignored:
        logger.warning("the setting %s means nothing here and is ignored", name)
