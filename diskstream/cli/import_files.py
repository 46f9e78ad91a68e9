"""`diskstream import`: CSV, JSON lines and plain log lines into streams."""

from __future__ import annotations

import codecs
import io
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import diskstream
from diskstream.cli.failure import Failure
from diskstream.cli.import_failing import told_to_stop, told_what_is_safe, told_when_over
from diskstream.cli.import_report import import_progress, write_report
from diskstream.cli.options import FSYNC, directory_option, json_option
from diskstream.cli.standard_files import check_input
from diskstream.exporting.manifest import NAME, is_manifest
from diskstream.exporting.placing import check_outside
from diskstream.ingest import (
    ID_FIELD,
    Beginning,
    InputChangedError,
    InputError,
    Loader,
    LoadOptions,
    LoadReport,
    SortingError,
    Source,
    TimeParser,
    Timestamps,
    begun,
    importing,
    keeping_rejects,
    key_of,
    load_tables,
    note_over,
    parse_timezone,
    table_format,
    version_of,
)
from diskstream.plurals import number_of

LINE_COLUMN = "line"

# Options that say nothing by themselves.
_OF_TIMESTAMPS = ("timestamp_format", "timezone", "year", "disorder")
_OF_CSV = ("delimiter", "columns")

# Codecs of names of hosts, which are read whole and not a piece at a time, and one that reads nothing.
_NO_TEXTS = ("idna", "punycode", "undefined")


def _encoding(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        name = codecs.lookup(value).name
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # there are codecs of bytes to bytes, too
    except (LookupError, ValueError):
        name = ""
    if not name or name in _NO_TEXTS:
        raise click.BadParameter(f"{value!r} is not an encoding of text that Python knows")
    return name


def _delimiter(_: click.Context, __: click.Parameter, value: str | None) -> bytes | None:
    if value is None:
        return None
    byte = {"tab": b"\t", "\\t": b"\t"}.get(value.lower(), os.fsencode(value))
    if len(byte) != 1 or byte in b'"\r\n':
        raise click.BadParameter("it has to be one byte, and neither a quote nor a newline")
    return byte


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@directory_option
@click.option(
    "-s", "--stream", required=True, metavar="NAME", help="The stream; {stem} in it stands for the name of each file."
)
@click.option(
    "--format",
    "input_format",
    type=click.Choice(["auto", "csv", "jsonl", "entries", "lines", "arrow", "parquet"]),
    default="auto",
    show_default=True,
    help="auto goes by the file's name.",
)
@click.option(
    "--delimiter", callback=_delimiter, metavar="CHAR", help="What separates columns. [default: comma, tab for .tsv]"
)
@click.option("--columns", metavar="NAME,NAME", help="The names of the columns of CSV files without a header.")
@click.option(
    "-t", "--timestamp", multiple=True, metavar="COLUMN", help="Its time becomes the ID. Twice for a date and a time."
)
@click.option("--id", "id_field", metavar="COLUMN", help="Its value is the whole ID, as 5-1, and no field.")
@click.option(
    "--timestamp-format",
    default="auto",
    show_default=True,
    metavar="FMT",
    help="auto, iso, epoch, epoch-ms, epoch-us, epoch-ns, or as %d/%b/%Y:%H:%M:%S.",
)
@click.option(
    "--timestamp-regex",
    metavar="REGEX",
    help="Where in the column, or in a log line, the timestamp is: its group, or all of it.",
)
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Of timestamps without an offset: UTC, +02:00 or Europe/Paris.",
)
@click.option("--year", type=click.IntRange(1970, 9999), help="Of the first row, where timestamps have no year.")
@click.option(
    "--disorder",
    type=click.Choice(["sort", "clamp", "error"]),
    default="sort",
    show_default=True,
    help="What to do with times that go backwards.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What to do at a bad row.",
)
@click.option(
    "--rejects",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Where to keep skipped rows, as JSON lines.",
)
@click.option("--file-field", metavar="NAME", help="Add a field of this name that holds the name of the file.")
@click.option(
    "--encoding",
    callback=_encoding,
    metavar="NAME",
    help="Read text of this encoding and keep it as UTF-8. [default: keep every byte]",
)
@click.option("--batch", type=click.IntRange(1, 100_000), default=500, show_default=True, help="Rows appended at once.")
@click.option(
    "--sort-memory",
    type=click.IntRange(1, 65_536),
    default=64,
    show_default=True,
    metavar="MIB",
    help="What sorting may hold before it uses temporary files.",
)
@click.option(
    "--fsync",
    type=FSYNC,
    default="everysec",
    show_default=True,
    help="All is on disk before the command ends, whichever it is.",
)
@click.option("--check", is_flag=True, help="Read back what was written and compare.")
@click.option("--again", is_flag=True, help="Begin anew, also where an earlier run of the same was interrupted.")
@json_option
def command(files: tuple[str, ...], directory: Path, stream: str, as_json: bool, fsync: str, **options: Any) -> None:
    """Read CSV, JSON lines, plain log lines, Arrow or Parquet into a stream.

    \b
    CSV     the header names the fields; each value keeps its bytes, without the quotes around it
    JSONL   each member of an object is a field: strings as UTF-8, all else as it is written
    entries JSON lines with `id` and `fields`, as `diskstream export` and `range --json` write them: IDs are kept
    lines   one field, `line`, with every byte but the newline, and but a UTF-8 byte order mark at the beginning; the
            carriage return of a line that ends in CR LF stays
    arrow   a column a field, or the list `fields`; IDs where id_ms and id_seq are columns. Parquet likewise

    What is no text is refused before anything is written: compressed files, tables under other names, UTF-16 and UTF-32
    without --encoding, and bytes with NULs where neither --format nor the name says what they are.

    With --timestamp the time of that column is the ID (the column stays a field too). Rows of one millisecond are
    numbered in their order. Where times go backwards, --disorder sort writes all rows in order of time, those of one
    time in theirs; it reads everything before it writes anything. clamp gives such a row the time of the one before it,
    error refuses it. Without --timestamp the time of the import is the ID. Of an hour that a --timezone has twice, as
    its clocks are put back, each time is the one nearer to that of the row before.

    A run that is interrupted, however it ends, goes on when the same files are imported in the same way again: what is
    there already is passed over. Files may have grown since, or a bad row been mended; where a row that is there is
    another one now (of Arrow and Parquet, where the file was touched), or some of the files are named and others with
    them, as by a pattern that means more by then, the run is refused, and --again imports everything. After one that
    came to its end, the same is imported once more. What comes through a pipe cannot be gone on with; its rows are
    appended within about a second, also while it stays open (but with --disorder sort, which waits for its end).
    """
    started = time.perf_counter()
    groups = _group(files, stream, options)
    _check_used([source for sources in groups.values() for source in sources], options)
    # Each stream has options of its own: what was learnt of the year in one says nothing of another.
    loads = {name: _load_options(options) for name in groups}
    for name, sources in groups.items():
        _check_tables(sources, loads[name])
        _check_texts(sources)
    _check_rejects(options["rejects"], groups, directory)
    paths = {name: [str(Path(each.path).resolve()) for each in sources] for name, sources in groups.items()}
    keys = _keys(groups, paths, options)
    finishing: list[Callable[[], None]] = []
    with (
        told_to_stop(can_go_on=all(keys.values())),
        told_when_over(finishing),
        told_what_is_safe(can_go_on=all(keys.values())) as noting,
        diskstream.open(directory, fsync=fsync) as store,
        ExitStack() as held,
    ):
        for name in sorted(groups):
            held.enter_context(importing(store, os.fsencode(name), keys[name]))
        streams = {name: store.stream(os.fsencode(name)) for name in groups}
        whole = key_of({"files": sorted(path for several in paths.values() for path in several)})
        imports = [Beginning(streams[name], keys[name], paths[name], whole) for name in groups]
        held.enter_context(begun(store, imports, again=options["again"]))
        version = None if options["again"] else version_of((streams[name], keys[name]) for name in groups)
        over: list[Callable[[], None]] = []
        for name, sources in groups.items():
            given = replace(loads[name], key=keys[name], version=version)
            with noting(store, streams[name]):
                report, finish = _import(streams[name], sources, given)
                over.append(finish)
                store.sync()
            write_report(report, time.perf_counter() - started, disorder=given.disorder, as_json=as_json)
            started = time.perf_counter()
        _close_rejects(options["rejects"], can_go_on=all(keys.values()))
        for finish in over:  # only now: what fails before is gone on with, and not imported once more
            finishing.append(finish)
            finish()
        store.sync()
        note_over(store, imports)


def _check_rejects(rejects: Any, groups: dict[str, list[Source]], store: Path) -> None:
    """Rejected rows are not written over what is read, nor over what it is read into.

    Raises:
        click.UsageError: they would be.
        StorageError: the path leads nowhere.
    """
    if not hasattr(rejects, "close_intelligently"):  # standard output, or nothing
        return
    path = str(rejects.name)
    try:
        check_outside(store, Path(path))
    except diskstream.ArgumentError as error:
        raise click.UsageError(f"--rejects: {error}") from None
    for sources in groups.values() if Path(path).is_file() else ():
        if any(Path(source.path).exists() and Path(source.path).samefile(path) for source in sources):
            raise click.UsageError(f"{path} is imported: keep rejected rows elsewhere")


def _close_rejects(rejects: Any, *, can_go_on: bool) -> None:
    """Has all of them on their way to the disk.

    Raises:
        Failure: the system said no.
    """
    if rejects is None:
        return
    try:
        with keeping_rejects(rejects):
            getattr(rejects, "close_intelligently", rejects.flush)()  # a file that was never needed is not made
    except InputError as error:
        again = "run the same again once that is mended"
        other = "all good rows were imported, and would be there twice: import all of it into another stream"
        raise Failure(str(error), hint=again if can_go_on else other) from error


def _group(files: tuple[str, ...], stream: str, options: dict[str, Any]) -> dict[str, list[Source]]:
    """The files of each stream. What is missing, or named twice, is found before anything is written.

    Raises:
        Failure: a file is not there, holds no rows, is a directory, or is standard input and closed.
        click.UsageError: a stream would have the rows of a file twice.
    """
    columns = options["columns"]
    groups: dict[str, list[Source]] = {}
    for file in files:
        if file == "-":
            check_input()
        elif not Path(file).exists():
            raise Failure(f"{file}: there is no such file")
        _check_holds_rows(Path(file), options["input_format"])
        source = Source(
            file,
            options["input_format"],
            options["delimiter"],
            None if columns is None else tuple(os.fsencode(name) for name in columns.split(",")),
            options["encoding"],
        )
        stem = "stdin" if file == "-" else Path(file).stem
        groups.setdefault(stream.replace("{stem}", stem), []).append(source)
    for sources in groups.values():
        _check_once(sources)
    return groups


def _check_holds_rows(path: Path, file_format: str) -> None:
    """What holds no rows is told before anything is written: of an export in parts `*` names its list of them, too.

    Raises:
        Failure: it is a directory, or such a list.
    """
    if path.is_dir():
        parts = "part-*" if is_manifest(path / NAME) else "*"
        raise Failure(f"{path}: is a directory", hint=f"name its files: {path / parts}")
    if file_format != "lines" and is_manifest(path):
        what = "is the list that an export in parts keeps beside them, and holds no entries"
        raise Failure(f"{path}: {what}", hint=f"nothing was imported; name the parts alone: {path.parent / 'part-*'}")


def _check_used(sources: list[Source], options: dict[str, Any]) -> None:
    """What was asked for is done, or refused: rows that were read otherwise than somebody thinks look well for long.

    Raises:
        click.UsageError: an option has nothing to do, as these files are read.
    """
    context = click.get_current_context()
    given = [
        parameter
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if not options["timestamp"] and options["timestamp_regex"] is None:
        for parameter in given:
            if parameter.name in _OF_TIMESTAMPS:
                raise click.UsageError(f"{parameter.opts[0]} is for timestamps: --timestamp names the column of theirs")
    if not any(source.is_csv for source in sources):
        for parameter in given:
            if parameter.name in _OF_CSV:
                message = f"{parameter.opts[0]} is for CSV, and nothing is read as that: --format csv does it"
                raise click.UsageError(message)
    if options["rejects"] is not None and options["on_error"] != "skip":
        raise click.UsageError("--rejects keeps rows that are skipped: give --on-error skip as well")


def _check_once(sources: list[Source]) -> None:
    """By whatever way a name leads to a file, it is imported once: else a stream would have each of its rows twice.

    Raises:
        click.UsageError: two names are of one file.
    """
    known: dict[tuple[int, int] | None, str] = {}
    for source in sources:
        found = None if source.path == "-" else Path(source.path).stat()
        which = None if found is None else (found.st_dev, found.st_ino)
        if which in known:
            before = "" if known[which] == source.path else f", as {known[which]}"
            raise click.UsageError(f"{source.path} is named twice{before}: each row would be there twice; name it once")
        known[which] = source.path


# What does not shape the rows. (Which of them are bad shows in those that are there.)
_NO_MATTER = ("rejects", "batch", "sort_memory", "check", "again", "on_error")


def _keys(groups: dict[str, list[Source]], paths: dict[str, list[str]], options: dict[str, Any]) -> dict[str, str]:
    """What names the import of files to each stream, whatever is in them; empty where there is something else.

    Args:
        groups: the files of each stream.
        paths: the same, resolved.
        options: how they are read.
    """
    if any(not Path(source.path).is_file() for several in groups.values() for source in several):
        return dict.fromkeys(groups, "")
    facts: dict[str, Any] = {"how": {name: value for name, value in options.items() if name not in _NO_MATTER}}
    if len(groups) > 1:
        facts["beside"] = sorted(path for several in paths.values() for path in several)
    # The name as it was given is in each row where it is a field.
    gives = options["file_field"] is not None
    keys = {}
    for name, sources in groups.items():
        both = zip(paths[name], sources, strict=True)
        files = [[path, source.path] if gives else [path] for path, source in both]
        keys[name] = key_of(facts | {"stream": name, "files": files})
    return keys


def _check_tables(sources: list[Source], base: LoadOptions) -> None:
    """Tables are read by columns: they go together with no other files, and have no use for what is about rows."""
    tables = [source for source in sources if table_format(source)]
    if not tables:
        return
    if len(tables) < len(sources):
        raise click.UsageError("Arrow and Parquet files go into a stream by themselves: import the others apart")
    if any(source.path == "-" for source in tables):
        raise click.UsageError("Arrow and Parquet are read from files: name one")
    about_rows = (base.timestamps, base.id_field, base.file_field, base.rejects)
    if any(given is not None for given in about_rows) or base.skip_bad_rows or base.check:
        raise click.UsageError("Arrow and Parquet files have columns: no option about rows goes with them")


def _check_texts(sources: list[Source]) -> None:
    """What cannot be read as rows at all is found before those of another file are there.

    Raises:
        Failure: a file is no text, or cannot be opened.
    """
    for source in sources:
        if table_format(source) is None:
            try:
                source.check()
            except InputError as error:
                raise Failure(str(error), hint=_way_out(error, can_go_on=False)) from error


def _load_options(options: dict[str, Any]) -> LoadOptions:
    columns, regex = options["timestamp"], options["timestamp_regex"]
    id_field = None if options["id_field"] is None else os.fsencode(options["id_field"])
    if options["input_format"] == "entries":
        if id_field is not None:
            raise click.UsageError("--id is for columns: entries have their IDs")
        id_field = ID_FIELD
    if id_field is not None and (columns or regex):
        raise click.UsageError("an entry has one ID: give no --timestamp where rows have their IDs")
    if regex is not None and not columns:
        columns = (LINE_COLUMN,)
    timestamps = None
    if columns:
        try:
            parser = TimeParser(
                options["timestamp_format"], zone=parse_timezone(options["timezone"]), year=options["year"]
            )
            pattern = None if regex is None else re.compile(os.fsencode(regex))
            timestamps = Timestamps([os.fsencode(name) for name in columns], parser, pattern)
        except (ValueError, re.error) as error:
            raise click.UsageError(str(error)) from None
    return LoadOptions(
        timestamps=timestamps,
        id_field=id_field,
        disorder=options["disorder"],
        skip_bad_rows=options["on_error"] == "skip",
        rejects=options["rejects"],
        file_field=None if options["file_field"] is None else os.fsencode(options["file_field"]),
        batch=options["batch"],
        sort_memory_bytes=options["sort_memory"] * 1024 * 1024,
        check=options["check"],
        again=options["again"],
    )


def _import(
    stream: diskstream.Stream, sources: list[Source], base: LoadOptions
) -> tuple[LoadReport, Callable[[], None]]:
    """What became of them, and what says that it is over."""
    with import_progress(stream.name, sources) as (on_read, on_written):
        options = replace(base, on_read=on_read, on_written=on_written)
        try:
            if table_format(sources[0]):
                report, resumption = load_tables(stream, sources, options)
                return report, resumption.finish
            loader = Loader(stream, options)
            return loader.load(sources), loader.finish
        except InputChangedError as error:
            raise Failure(str(error), hint=error.hint) from error
        except InputError as error:
            raise Failure(str(error), hint=_way_out(error, can_go_on=bool(base.key))) from error


def _way_out(error: InputError, *, can_go_on: bool) -> str:
    """How much is there, and how to have the rest: once."""
    before = "nothing was imported"
    if error.written:
        before = number_of(error.written, "row before it was imported", "rows before it were imported")
    if error.hint is None and error.line is None:  # it is no row that is wrong
        if can_go_on or not error.written:
            return f"{before}; run the same again once that is mended"
        return f"{before}, and would be there twice: import all of it into another stream"
    way_out = error.hint or "--on-error skip leaves out bad rows and reports them"
    if not error.written:
        return f"{before}; {way_out}"
    if isinstance(error, SortingError) and can_go_on:
        return f"{before}; {way_out}, and run the same again, which goes on"
    if error.hint is None and can_go_on:
        mend = "mend it and run the same again, which goes on as well"
        return f"{before}; --on-error skip goes on from there, leaves out bad rows and reports them; or {mend}"
    return f"{before}, and would be there twice: import all of it into another stream; {way_out}"
