"""Options that several jobs have."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from diskstream.cli.failure import Failure
from diskstream.cli.options import as_bytes, place
from diskstream.cli.spark.starting import LOG_LEVEL, Later
from diskstream.errors import DiskstreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_F = TypeVar("_F", bound=Callable[..., Any])

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PANDAS: Final = ((2, 2), (3, 0))  # from where on, and before what: see the extra `spark` in pyproject.toml
_SIZES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

streams_option = click.option(
    "-s", "--stream", "streams", multiple=True, type=as_bytes, metavar="NAME", help="This stream. May be repeated."
)
pattern_option = click.option(
    "--match", "pattern", default="", metavar="GLOB", help="The streams whose names match. All, without --stream."
)
start_option = click.option("--start", default="-", metavar="ID", help="From this ID or time in ms on.")
end_option = click.option("--end", default="+", metavar="ID", help="Up to this ID or time in ms.")


def archive_option(function: _F) -> _F:
    """`--archive`."""
    return click.option(
        "-a",
        "--archive",
        required=True,
        envvar="DISKSTREAM_ARCHIVE",
        show_envvar=True,
        type=place(file_okay=False),
        help="The archive's directory.",
    )(function)


def session_options(function: _F) -> _F:
    """`--master` and `--conf`."""
    master = click.option(
        "--master",
        metavar="URL",
        help="Where to run, as spark://HOST:PORT, or sc://HOST:PORT for a server of Spark Connect; else where "
        "spark-submit or SPARK_REMOTE says, else local[*]: on this machine.",
    )
    conf = click.option(
        "--conf",
        "confs",
        multiple=True,
        metavar="KEY=VALUE",
        help=f"A setting of Spark's, repeatable; with {LOG_LEVEL}=WARN its log is shown.",
    )
    return master(conf(function))


def seconds(given: str) -> float:
    """Seconds of ``90s``, ``15m``, ``1h``, ``2d``, or of a bare number; a type for click."""
    number, unit = (given[:-1], given[-1].lower()) if given[-1:].lower() in _UNITS else (given, "s")
    return float(number) * _UNITS[unit]


def size_bytes(given: str) -> int:
    """Bytes of ``64m``, ``1g``, or of a bare number; a type for click."""
    number, factor = (given[:-1], _SIZES[given[-1].lower()]) if given[-1:].lower() in _SIZES else (given, 1)
    return int(number) * factor


def jobs_or_failure() -> None:
    """Looks whether the jobs can be loaded.

    Raises:
        Failure: pyspark, pyarrow or pandas is missing, or of a version that Spark does not take.
    """
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(
            f"jobs on Spark need {', '.join(missing)}", hint="pip install 'diskstream[spark]', and Java 17 or later"
        )
    # Spark looks at it itself, once it runs, and tells of an old one with two traces.
    pandas = importlib.metadata.version("pandas")
    if not _PANDAS[0] <= tuple(int(part) for part in re.findall(r"\d+", pandas)[:2]) < _PANDAS[1]:
        raise Failure(
            f"jobs on Spark need pandas 2.2 or later, and before 3, not {pandas}", hint="pip install 'pandas>=2.2,<3'"
        )


def started(name: str, master: str | None, confs: tuple[str, ...]) -> SparkSession:
    """The session of a job: it starts when the job has looked at everything, and has something to do.

    Raises:
        click.BadParameter: a setting that is none.
        Failure: Spark cannot be started here.
    """
    from diskstream.spark.jobs.session import check_ready

    settings = {}
    for conf in confs:
        key, found, value = conf.partition("=")
        if not key or not found:
            raise click.BadParameter(f"{conf!r} is no KEY=VALUE, as spark.driver.memory=4g", param_hint="--conf")
        settings[key] = value
    try:
        check_ready(master)
    except DiskstreamError as error:
        raise Failure(str(error), hint="docs/spark.md says what Spark needs") from error
    return cast("SparkSession", Later(name, master, settings))
