"""The command's reference, docs/cli.md, made of what the command itself says: run it after a change of a verb.

python tools/cli_reference.py            writes docs/cli.md
python tools/cli_reference.py --check    ends with status 1 where it is not up to date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from diskstream.cli import main

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
COMMAND = "python tools/cli_reference.py"

_HEAD = f"""# The command

<!-- Made by `{COMMAND}` of what the command says itself. -->

`diskstream VERB --help` prints the same. What is asked for goes to standard output, all else to standard error: bars
and colours on a terminal only, and no colours where `NO_COLOR` is set. With `--json` an object a line is printed.

| exit status | |
| --- | --- |
| 0 | done |
| 1 | failed, or something was found amiss: a line `error:`, and `hint:` where there is a way out |
| 2 | wrong usage; nothing was done |

Where whoever reads standard output goes before all is written, a verb ends with 1, without a word.

Verbs that take something away for good say what, and ask. `--force` does it without asking, which is what a script
wants: where nobody is there to answer, nothing is done. `--dry-run` says what would be done. The store is named by
`--dir` or by the environment variable `DISKSTREAM_DIR`. Names are bytes as the shell passes them.

Where an ID is asked for as `ID|TIME`, a time in ISO 8601 will do, in UTC unless it says otherwise; a `SPAN` is a length
of time such as `90s`, `1h30m` or `7d`, in `ms`, `s`, `m` (or `min`), `h`, `d` and `w`. A `SIZE` is a number of bytes,
or has a unit: `kB`, `MB`, `GB`, `TB` (or `k`, `m`, `g`, `t`), `KiB`, `MiB`, `GiB`, `TiB`.
"""


def reference() -> str:
    """The whole page."""
    root = click.Context(main, info_name="diskstream", **main.context_settings)
    verbs = [page for name in main.list_commands(root) for page in _verb(main, name, root)]
    contents = [f"- [{title}](#{_anchor(title)})" for title, _ in verbs]
    return "\n".join([_HEAD, *contents, "", "\n".join(text for _, text in verbs)]).rstrip() + "\n"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def _verb(group: click.Group, name: str, parent: click.Context) -> Iterator[tuple[str, str]]:
    """A verb, or all of a group of them: title and text of each."""
    command = group.get_command(parent, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _verb(command, each, context)
        return
    title = context.command_path.partition(" ")[2]
    usage = " ".join(["diskstream", title, *command.collect_usage_pieces(context)])
    lines = [f"## {title}", "", "```", usage, "```", "", *_help(command.help or ""), *_options(command, context)]
    yield title, "\n".join(lines)


def _help(text: str) -> Iterator[str]:
    """Paragraphs; those that click is told to leave as they are become blocks."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip() != "\b"]
        if len(lines) < len(paragraph.splitlines()):
            yield from ["```text", *(line.rstrip() for line in lines), "```", ""]
        else:
            yield from [*(_plain(line.rstrip()) for line in lines), ""]


def _plain(line: str) -> str:
    """A line as it is: what stands between backquotes is code already, and nothing else means anything."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([*<>])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [
        record
        for parameter in command.params  # without --help
        if isinstance(parameter, click.Option)
        if (record := parameter.get_help_record(context)) is not None
    ]
    if records:
        yield from ["| option | |", "| --- | --- |"]
        yield from (f"| `{_cell(names)}` | {_cell(_plain(text))} |" for names, text in records)
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def run(arguments: list[str]) -> int:
    """Write the page, or check it; the exit status."""
    if arguments not in ([], ["--check"]):
        is_help = arguments in (["--help"], ["-h"])
        print(f"usage: {COMMAND} [--check]", file=sys.stdout if is_help else sys.stderr)
        return 0 if is_help else 2
    made = reference()
    if not arguments:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print(f"docs/cli.md is not what the command says: run {COMMAND}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
