"""What `diskstream tail` prints: a line an entry, with the stream's name where there are several."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

import diskstream
from diskstream.cli.output import console, entry_facts, entry_line, error_console, plain, text, write_lines


class Lines:
    """Writes entries, and what happens to streams."""

    def __init__(self, *, as_json: bool, named: bool) -> None:
        terminal = console()
        self._as_json, self._named = as_json, named
        self._coloured = not as_json and terminal.color_system is not None and not terminal.no_color

    def write(self, name: bytes, entries: Iterable[diskstream.Entry]) -> None:
        """Write entries of a stream as they come, flushed a few hundred at a time."""
        write_lines((self._line(name, entry) for entry in entries), coloured=self._coloured)

    def _line(self, name: bytes, entry: diskstream.Entry) -> str:
        if self._as_json:
            return json.dumps({"stream": plain(name), **entry_facts(entry)})
        line = entry_line(entry, coloured=self._coloured)
        if not self._named:
            return line
        return f"{click.style(text(name), fg='green') if self._coloured else text(name)}  {line}"

    @staticmethod
    def say(name: bytes, what: str) -> None:
        """Tell what happened to a stream, on standard error."""
        said = f"{text(name)}: {what}".encode("utf-8", "backslashreplace").decode()
        error_console().print(said, markup=False, highlight=False, soft_wrap=True, style="yellow")
