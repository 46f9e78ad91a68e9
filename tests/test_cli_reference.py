"""docs/cli.md says what the command says, all of it."""

import subprocess
import sys
from pathlib import Path

import click

from diskstream.cli import main
from tools import cli_reference

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_is_up_to_date() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.reference(), (
        f"run {cli_reference.COMMAND} and commit docs/cli.md"
    )


def test_it_is_made_and_checked_as_the_page_says() -> None:
    program = [sys.executable, str(ROOT / "tools" / "cli_reference.py")]
    environment = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "40"}
    checked = subprocess.run([*program, "--check"], capture_output=True, env=environment, check=False)
    assert checked.returncode == 0, checked.stderr
    assert subprocess.run([*program, "--wrong"], capture_output=True, env=environment, check=False).returncode == 2


def test_a_page_that_is_behind_is_noticed(tmp_path: Path) -> None:
    before = cli_reference.PAGE
    try:
        cli_reference.PAGE = tmp_path / "cli.md"
        assert cli_reference.run(["--check"]) == 1
        assert cli_reference.run([]) == 0
        assert cli_reference.run(["--check"]) == 0
        cli_reference.PAGE.write_text(cli_reference.PAGE.read_text(encoding="utf-8") + "x", encoding="utf-8")
        assert cli_reference.run(["--check"]) == 1
    finally:
        cli_reference.PAGE = before


def leaves(group: click.Group, context: click.Context, path: str = "") -> list[tuple[str, click.Command]]:
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        title = f"{path} {name}".strip()
        found += leaves(command, context, title) if isinstance(command, click.Group) else [(title, command)]
    return found


def test_every_verb_and_every_option_is_on_it() -> None:
    page = cli_reference.reference()
    for title, command in leaves(main, click.Context(main)):
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        assert command.help is not None, title
        assert section, title
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(name in section for name in parameter.opts), (title, parameter.opts)
                assert parameter.help or parameter.show_default or parameter.metavar, (title, parameter.opts)


# It prints what another program is to read as it is.
WITHOUT_JSON = {"completion"}


def test_whatever_prints_prints_json_too() -> None:
    for title, command in leaves(main, click.Context(main)):
        options = {name for parameter in command.params for name in parameter.opts}
        assert "--json" in options or title in WITHOUT_JSON, title
