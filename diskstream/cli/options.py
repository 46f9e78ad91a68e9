"""Arguments and options that several verbs have."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

import diskstream
from diskstream.arguments import check_path
from diskstream.cli.completing import complete_groups, complete_streams
from diskstream.cli.failure import Failure
from diskstream.cli.output import text

_F = TypeVar("_F", bound=Callable[..., Any])

FSYNC = click.Choice(["always", "everysec", "os"])


def as_bytes(argument: str) -> bytes:
    """An argument as the bytes that the shell passed; a type for click."""
    return os.fsencode(argument)


def finite(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """A number that is one; a callback for click, whose ranges let NaN through."""
    if not math.isfinite(value):
        raise click.BadParameter("it has to be a finite number", param=parameter)
    return value


def checked(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for click: what was given as it was, each of it, unless the check raises one of our own errors."""

    def callback(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            try:
                check(each)
            except diskstream.DiskstreamError as error:
                raise click.BadParameter(str(error), param=parameter) from None
        return value

    return callback


def not_empty(name: bytes | str) -> None:
    """A name, a pattern or an address that says something.

    Raises:
        diskstream.ArgumentError: it is empty.
    """
    if not name:
        raise diskstream.ArgumentError("it must not be empty")


class _Place(click.Path):
    """A path that may not be there yet. One that is empty, as of a variable that was not set, is no path.

    To `Path` it would be the working directory: a store is read, written or made there that nobody has named. Nor is a
    URL one, which would be a folder there: see `check_path`.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty: name a directory (. is the one that you are in)", param, ctx)
        try:
            check_path(value, "it")
        except diskstream.ArgumentError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


def place(*, file_okay: bool = True) -> click.Path:
    """The path of a directory, or of what may become one; a type for click."""
    return _Place(file_okay=file_okay, readable=False, path_type=Path)


def directory_option(function: _F) -> _F:
    """`--dir`, as `directory`."""
    return _directory("The store's directory.", required=True)(function)


def optional_directory_option(what: str) -> Callable[[_F], _F]:
    """The same for a verb that can do without; `what` is its help."""
    return _directory(what, required=False)


def _directory(what: str, *, required: bool) -> Callable[[_F], _F]:
    return click.option(
        "-d",
        "--dir",
        "directory",
        required=required,
        envvar="DISKSTREAM_DIR",
        show_envvar=True,
        metavar="STORE",
        type=place(file_okay=False),
        help=what,
    )


def json_option(function: _F) -> _F:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(function)


def ref_option(function: _F) -> _F:
    """`--ref`, as `ref`: KEEPREF, DELREF or ACKED."""
    return click.option(
        "--ref",
        type=click.Choice(["KEEPREF", "DELREF", "ACKED"], case_sensitive=False),
        default="KEEPREF",
        show_default=True,
        help="Of groups: what is pending of what goes stays so (keepref), or ends in each of them (delref); acked: "
        "only what each was given and has acknowledged goes.",
    )(function)


def stream_argument(*, required: bool = True) -> Callable[[_F], _F]:
    """The name of a stream, as bytes."""
    return click.argument(
        "stream",
        metavar="STREAM" if required else "[STREAM]",
        type=as_bytes,
        required=required,
        callback=checked(not_empty),
        shell_complete=complete_streams,
    )


def group_argument(function: _F) -> _F:
    """The name of a consumer group, as bytes."""
    return click.argument("group", metavar="GROUP", type=as_bytes, shell_complete=complete_groups)(function)


@contextmanager
def existing_store(directory: Path, *, read_only: bool = False, **options: Any) -> Iterator[diskstream.Store]:
    """The store in the directory, which must be there; `options` as of `diskstream.open`."""
    with diskstream.open(directory, read_only=read_only, create=False, **options) as store:
        yield store


def existing_stream(store: diskstream.Store, name: bytes) -> diskstream.Stream:
    """The stream of that name. A misspelt name is an error, not an empty stream."""
    if not store.exists(name):
        raise Failure(f"there is no stream {text(name)} in {store.path}", hint="diskstream ls lists the streams")
    return store.stream(name)


@contextmanager
def none_missing(directory: Path) -> Iterator[None]:
    """The same for what works on directories, and finds out for itself."""
    try:
        yield
    except diskstream.NoSuchStreamError as error:
        raise Failure(
            f"there is no stream {text(error.name)} in {directory.absolute()}", hint="diskstream ls lists the streams"
        ) from None


def whole(stream: diskstream.Stream) -> diskstream.Stream:
    """The same stream. Counts and groups of one whose log is damaged are those of before the damage: no answer.

    Raises:
        CorruptionError: it is damaged.
    """
    vitals = stream.vitals()
    if vitals is not None and vitals.is_damaged:
        stream.count("+", "+")  # which goes past the damage
    return stream


def existing_group(store: diskstream.Store, stream: bytes, name: bytes) -> diskstream.Group:
    """The group of that name. A misspelt name is an error, not a new group.

    Raises:
        CorruptionError: the stream's log is damaged, so nobody knows its groups.
    """
    group = whole(existing_stream(store, stream)).group(name, create=False)
    if not group.exists():
        raise Failure(
            f"there is no group {text(name)} of stream {text(stream)} in {store.path}",
            hint=f"diskstream group ls {text(stream)} lists the groups",
        )
    return group
