"""What commands print: text for people, JSON for programs.

In JSON, bytes are text in UTF-8; a byte that is not UTF-8 is a lone surrogate from U+DC80 to U+DCFF (Python's
`surrogateescape`), from which `diskstream import --format jsonl` makes the byte again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table

import diskstream

_LINES_AT_ONCE = 512
_WIDEST = 1 << 16  # a name of 4,096 bytes, each of them escaped, and some more of those


def console() -> Console:
    """Standard output, for tables. Where it is no terminal the width is ample, so that no table is cut.

    What is in brackets is no markup: names have brackets.
    """
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)


def print_table(table: Table) -> None:
    """A table on standard output, as wide as what is in it: a narrow terminal goes on in its next line.

    Cut to its width, IDs could be neither read nor copied, and long names went from what is piped too.
    """
    Console(width=_WIDEST, highlight=False, markup=False).print(table)


def print_facts(facts: Mapping[str, str]) -> None:
    """A name and what it is in each line, whole and no longer than it is: an entry may be longer than any line."""
    width = max(map(len, facts), default=0)
    click.echo("\n".join(f"{name:<{width}}  {fact}" for name, fact in facts.items()))


def error_console(file: IO[Any] | None = None) -> Console:
    """Standard error, for messages and progress bars."""
    return Console(file=file, stderr=file is None, highlight=False, markup=False)


def text(value: bytes | str) -> str:
    """Bytes as a terminal may show them: bare where they are plain, else in quotes and escaped."""
    decoded = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    if decoded and decoded.isprintable() and not any(mark in decoded for mark in " \"'=\\"):
        return decoded
    escaped = "".join(char if char.isprintable() and char not in '"\\' else _escape(char) for char in decoded)
    return f'"{escaped}"'


def printable(said: str) -> str:
    """What a message says, and what of it a terminal would not print escaped: it may name a file. Its lines stay."""
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in said)


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape", "surrogatepass").decode()


def plain(value: object) -> Any:
    """A value as JSON has it: bytes as text, IDs as strings, records as objects."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, diskstream.Entry):
        return entry_facts(value)
    if is_dataclass(value):
        return plain(attributes(value))
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, diskstream.EntryID | Path):
        return [plain(each) for each in value]
    return str(value)


def attributes(record: Any, *, name: str = "name") -> dict[str, Any]:
    """The attributes of a dataclass in their order, as they are; its `name` is called as other verbs call it."""
    return {name if each.name == "name" else each.name: getattr(record, each.name) for each in fields(record)}


def write_json(value: object, *, err: bool = False) -> None:
    """One JSON object on one line; with `err` on standard error, where standard output is taken by something else."""
    click.echo(json.dumps(plain(value)), err=err)


def entry_facts(entry: diskstream.Entry) -> dict[str, Any]:
    """`id` and `fields`; where a name is repeated also `pairs`, which has all of them in order."""
    pairs = [[plain(name), plain(value)] for name, value in entry.pairs]
    facts: dict[str, Any] = {"id": str(entry.id), "fields": dict(pairs)}
    if len(facts["fields"]) < len(pairs):
        facts["pairs"] = pairs
    return facts


def write_entries(entries: Iterable[diskstream.Entry], *, as_json: bool) -> None:
    """One entry a line, as they come."""
    terminal = console()
    coloured = not as_json and terminal.color_system is not None and not terminal.no_color
    lines = (json.dumps(entry_facts(entry)) if as_json else entry_line(entry, coloured=coloured) for entry in entries)
    write_lines(lines, coloured=coloured)


def write_lines(lines: Iterable[str], *, coloured: bool) -> None:
    """Lines as they come, flushed a few hundred at a time; where they end in an error, all that came before it."""
    held: list[str] = []
    try:
        for line in lines:
            held.append(line)
            if len(held) == _LINES_AT_ONCE:
                some, held = held, []
                click.echo("\n".join(some), color=coloured)
    except diskstream.DiskstreamError:
        _write_held(held, coloured=coloured)
        raise
    _write_held(held, coloured=coloured)


def _write_held(held: list[str], *, coloured: bool) -> None:
    if held:
        click.echo("\n".join(held), color=coloured)


def entry_line(entry: diskstream.Entry, *, coloured: bool = False) -> str:
    """The ID, and each field as name=value."""
    entry_id = click.style(str(entry.id), fg="cyan") if coloured else str(entry.id)
    return "  ".join([entry_id, *(f"{text(name)}={text(value)}" for name, value in entry.pairs)])
