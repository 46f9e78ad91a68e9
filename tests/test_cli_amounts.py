"""Lengths of time and sizes are written alike for every verb: what one takes, all take."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.cli.amounts import AGE, SIZE, SIZE_OR_NOTHING, SPAN
from diskstream.objects import Place
from diskstream.store_files import store_uuid

HOUR_MS = 3_600_000


def _commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(names), command
        return
    for name in command.list_commands(click.Context(command)):
        found = command.get_command(click.Context(command), name)
        if found is not None and name != "spark":
            yield from _commands(found, *names, name)


def test_every_option_that_is_a_length_of_time_or_a_size_takes_the_same() -> None:
    """`backup prune --older-than 1h30m` was refused, though the reference says what a SPAN is."""
    found = {
        metavar: {
            f"{name} {option.opts[-1]}"
            for name, command in _commands(main)
            for option in command.params
            if option.metavar == metavar and option.type not in kinds
        }
        for metavar, kinds in (
            ("SPAN", (SPAN, AGE)),
            ("SIZE", (SIZE, SIZE_OR_NOTHING)),
            ("BYTES", ()),
            ("DURATION", ()),
            ("TIME", ()),
        )
    }
    assert not any(found.values()), found


def test_what_an_operator_writes_works_with_each(tmp_path: Path) -> None:
    place = f"file://{tmp_path}/place"
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
        Place(place).make_folder(store_uuid(store.path))
    run = CliRunner(env={"DISKSTREAM_DIR": str(tmp_path / "store")})
    assert run.invoke(main, ["backup", str(tmp_path / "kept")]).exit_code == 0
    for words in (
        ["backup", "prune", str(tmp_path / "kept"), "--older-than"],
        ["cold", "move", "--to", place, "--dry-run", "--older-than"],
        ["cold", "sweep", "--at", place, "--dry-run", "--older-than"],
        ["retention", "set", "s", "--dry-run", "--max-age"],
        ["replay", "s", "--to", "-", "--since"],
        ["tail", "s", "--since"],
        ["export", "s", "--since"],
    ):
        for given in ("1h30m", "5m", "1.5 h", "90s"):
            result = run.invoke(main, [*words, given])
            assert result.exit_code == 0, result.output


def test_lengths_of_time() -> None:
    for given, ms in (("1h30m", 5_400_000), ("1.5h", 5_400_000), ("12 h", 12 * HOUR_MS), ("2min", 120_000), ("5ms", 5)):
        assert SPAN.convert(given, None, None) == AGE.convert(given, None, None) == ms
    assert SPAN.convert("0s", None, None) == 0
    for bad in ("", "1", "x", "-1d", "1h30", "7 fortnights", "1e3d", "9" * 19 + "d", "h", "1h, 2m"):
        with pytest.raises(click.BadParameter):
            SPAN.convert(bad, None, None)


def test_sizes() -> None:
    for given, size in (("10GB", 10**10), ("512MiB", 1 << 29), ("7", 7), ("2k", 2000), ("1 TiB", 1 << 40)):
        assert SIZE.convert(given, None, None) == size
    assert SIZE.convert("9007199254740993", None, None) == 9007199254740993  # more than a float holds
    assert SIZE_OR_NOTHING.convert("0", None, None) == 0
    for bad in ("", "x", "0", "-1", "1PB", "9" * 30, "1GB500MB"):
        with pytest.raises(click.BadParameter):
            SIZE.convert(bad, None, None)
