"""Backups of some streams beside those of the whole store: which of them a directory of backups stands for."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.backups.manifest import read_manifest, write_manifest
from diskstream.cli import main
from diskstream.store_files import Files
from tests.backups.world import filled, seen_at


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that the store `store` and its backups `kept` are in, and the one to run commands in."""
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "store").close()
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words), env={"DISKSTREAM_DIR": "store"})
    assert result.exit_code == code, result.output
    return result


def objects(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*words, "--json").stdout.splitlines()]


@pytest.fixture
def names(directory: Path) -> list[str]:
    """Of a backup of the whole store, and then two of some streams."""
    with diskstream.open(directory / "store") as store:
        store.stream("orders").add({"n": 1}, "1-0")
        run("backup", "kept")
        store.stream("orders").add({"n": 2}, "2-0")
    run("backup", "kept", "--stream", "orders")
    run("backup", "kept", "--stream", "orders", "--stream", "e*")
    return [each["name"] for each in objects("backup", "ls", "kept")]


def test_a_store_is_restored_from_a_backup_of_the_whole_store(directory: Path, names: list[str]) -> None:
    """The newest was of one stream: it was taken for the store, without a word."""
    assert f"from {names[0]}" in run("restore", "kept", "--to", "planned", "--dry-run").stdout
    (done,) = objects("restore", "kept", "--to", "again")
    assert (done["backup"], done["patterns"]) == (names[0], [])
    assert len(seen_at(directory / "again")) == 4


@pytest.mark.parametrize(
    ("asked", "number"),
    [(["orders"], 2), (["empty"], 2), (["x"], 0), (["orders", "empty"], 2), (["orders", "x"], 0)],
    ids=lambda asked: "-".join(asked) if isinstance(asked, list) else "",
)
def test_streams_are_restored_from_the_newest_backup_that_is_of_them(
    names: list[str], asked: list[str], number: int
) -> None:
    words = [word for name in asked for word in ("--stream", name)]
    (planned,) = objects("restore", "kept", "--to", "again", *words, "--dry-run")
    (done,) = objects("restore", "kept", "--to", "again", *words)
    assert planned["backup"] == done["backup"] == names[number]
    assert planned["patterns"] == done["patterns"] == (["orders", "e*"] if number else [])


def test_so_is_what_is_sent_again(directory: Path, names: list[str]) -> None:
    for stream, entries in ((b"orders", 2), (b"x", len(seen_at(directory / "store")[b"x"][0]))):
        run("replay", stream.decode(), "--backup", "kept", "--to", "stream:again@store", "--speed", "max")
        assert len(seen_at(directory / "store")[b"again"][0]) == entries
        run("rm", "again", "--force")


def test_what_a_backup_is_of_is_shown(names: list[str]) -> None:
    _, whole, one, two = (line.rstrip() for line in run("backup", "ls", "kept").stdout.splitlines())
    assert "orders" not in whole
    assert one.endswith("  orders")
    assert two.endswith("  orders, e*")
    assert f"from {names[2]} (only orders, e*)" in run("restore", f"kept/{names[2]}", "--to", "some").stdout
    assert objects("restore", f"kept/{names[1]}", "--to", "one")[0]["patterns"] == ["orders"]


@pytest.mark.parametrize(("words", "what"), [((), "the whole store"), (("--stream", "x"), "x")])
def test_where_none_is_of_what_is_asked_they_are_named(
    directory: Path, names: list[str], words: tuple[str, ...], what: str
) -> None:
    (directory / "kept" / names[0]).rename(directory / "elsewhere")
    said = " ".join(run("restore", "kept", "--to", "again", *words, code=1).stderr.split())
    assert f"none of the backups in it is of {what}" in said
    assert f"{names[2]} (orders, e*), {names[1]} (orders)" in said
    assert not (directory / "again").exists()


def turns(directory: Path, *places: str) -> list[str]:
    """Backups of a store and of a copy of it, the oldest first; each has a stream named after its store more."""
    if not (directory / "copy").exists():
        shutil.copytree(directory / "store", directory / "copy")
    for number, place in enumerate(places):
        with diskstream.open(directory / place) as store:
            store.stream(f"{place}-{number}").add({"n": 1})
        run("backup", "kept", "--dir", place)
    return [each["name"] for each in objects("backup", "ls", "kept")]


@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--stream", "x"], ["--to", "redis://127.0.0.1:1"]])
def test_whose_backups_come_by_turns_nobody_knows(directory: Path, words: list[str]) -> None:
    """The newest one was taken, of the copy for the store, and not even named."""
    names = turns(directory, "store", "copy", "store", "copy")
    said = " ".join(run("restore", "kept", "--to", "again", *words, code=1).stderr.split())
    assert "by turns" in said
    assert f"{names[3]} of {directory / 'copy'}, {names[2]} of {directory / 'store'}" in said
    assert not (directory / "again").exists()
    if not words:
        run("replay", "x", "--backup", "kept", "--to", "-", code=1)
        done = run("restore", f"kept/{names[2]}", "--to", "again").stdout
        assert f"from {names[2]}, a backup of {directory / 'store'}" in done
        assert b"store-2" in seen_at(directory / "again")


def test_of_a_store_that_went_on_elsewhere_the_newest_is_taken_and_that_is_said(directory: Path) -> None:
    names = turns(directory, "store", "store", "copy", "copy")
    run("backup", "kept", "--stream", "x")  # of some streams only: not asked for
    done = run("restore", "kept", "--to", "again")
    assert f"from {names[3]}, a backup of {directory / 'copy'}" in done.stdout
    said = " ".join(done.stderr.split())
    assert (
        f"{names[3]} is the newest, of {directory / 'copy'}; {names[1]} is the newest of {directory / 'store'}" in said
    )
    (facts,) = objects("restore", f"kept/{names[1]}", "--to", "earlier")
    assert facts["of"] == str(directory / "store")
    assert not run("restore", f"kept/{names[1]}", "--to", "quiet").stderr


def test_one_of_before_directories_were_noted_is_of_no_other(directory: Path) -> None:
    (name,) = turns(directory, "store")
    manifest = read_manifest(directory / "kept" / name)
    nameless = replace(manifest.header, place="", number=1)
    write_manifest(directory / "kept" / name, replace(manifest, header=nameless), Files())
    newest = turns(directory, "copy", "copy")[2]
    done = run("restore", "kept", "--to", "again")
    assert (f"from {newest}," in done.stdout, done.stderr) == (True, "")
