"""`diskstream backup` and `diskstream restore`: what operators see."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.backups import Repository, find_backup, make_backup, repository
from diskstream.cli import main
from diskstream.cli.backup import verify
from diskstream.store_files import Files
from tests.backups.world import bulky, filled, flip_in_place, seen_at

Run = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    filled(tmp_path / "store").close()
    return tmp_path / "store"


@pytest.fixture
def run(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a verb on that store, in the directory that the store is in."""
    monkeypatch.chdir(tmp_path)

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(directory)})
        assert result.exit_code == code, result.output
        return result

    return run_verb


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_backup_is_made_listed_verified_restored_and_removed(run: Run, tmp_path: Path) -> None:
    assert "3 streams" in run("backup", "kept").stdout
    (made,) = objects(run("backup", "create", "kept", "--json"))
    assert made["streams"] == 3
    assert made["damaged_streams"] == []
    listed = objects(run("backup", "ls", "kept", "--json"))
    assert [each["number"] for each in listed] == [1, 2]
    assert listed[1]["path"] == made["path"]
    assert "3" in run("backup", "ls", "kept").stdout.splitlines()[1].split()
    assert "0 faults" in run("backup", "verify", "kept").stdout
    assert "1 backup," in run("backup", "verify", made["path"]).stdout
    run("restore", "kept", "--to", "again")
    assert seen_at(tmp_path / "again") == seen_at(tmp_path / "store")
    assert "would remove" in run("backup", "prune", "kept", "--keep", "1", "--dry-run").stdout
    run("backup", "prune", "kept", "--keep", "1", code=1, given="n\n")
    assert len(Repository.open(tmp_path / "kept").backups()) == 2
    assert objects(run("backup", "prune", "kept", "--keep", "1", "--force", "--json")) == [
        {"name": listed[0]["name"], "removed": True}
    ]
    assert len(Repository.open(tmp_path / "kept").backups()) == 1
    assert "nothing" in run("backup", "prune", "kept", "--older-than", "1h", "--force").stdout


def test_the_command_gives_way_to_other_processes_and_a_backup_made_by_a_program_does_not(
    run: Run, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    make_backup(directory, tmp_path / "made")
    assert asked == []
    run("backup", "kept")
    assert asked == [19]


def test_findings_are_told_and_end_with_one(run: Run, tmp_path: Path) -> None:
    with bulky(tmp_path / "large") as store:
        flip_in_place(min(store.path.glob("streams/x/*.seg")), 9000)
    result = run("backup", "bad", "--dir", str(tmp_path / "large"), code=1)
    assert "error: x: 00000001.seg" in result.stderr
    assert "hint:" in result.stderr
    assert "so it was when the backup was made" in run("backup", "verify", "bad", code=1).stdout
    result = run("restore", "bad", "--to", "again", code=1)
    assert "--damaged" in result.stderr
    run("restore", "bad", "--to", "again", "--damaged")


def test_a_backup_that_rotted_is_found(run: Run, tmp_path: Path) -> None:
    with bulky(tmp_path / "large") as store:
        run("backup", "kept", "--dir", str(store.path))
    (backup,) = Repository.open(tmp_path / "kept").backups()
    flip_in_place(min(backup.path.glob("streams/x/*.seg")), 9000)
    (backup.path / "extra").write_text("?")
    *found, summary = objects(run("backup", "verify", "kept", "--json", code=1))
    assert {finding["path"] for finding in found} == {"streams/x/00000001.seg", "extra"}
    assert not any(finding["known"] for finding in found)
    assert (summary["ok"], summary["findings"]) == (False, 2)


@pytest.mark.parametrize("moment", ["listed", "looked at", "being removed"])
def test_what_a_prune_removes_meanwhile_is_no_fault(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Where a timer runs each of the two: verify ended with an error, and did not come to the newest backup."""
    for _ in range(3):
        run("backup", "create", "kept")
    place = Repository.open(tmp_path / "kept")
    going = place.backups()[1]
    module, name = (repository, "read_header") if moment == "listed" else (verify, "check_backup")
    real = getattr(module, name)
    with ExitStack() as held:

        def meanwhile(found: Any, *more: Any, **options: Any) -> Any:
            if found in (going, going.path):
                if moment == "being removed":
                    held.enter_context(going.used(alone=True))
                else:
                    place.remove(going.path, Files())
            return real(found, *more, **options)

        monkeypatch.setattr(module, name, meanwhile)
        assert "2 backups," in run("backup", "verify", "kept").stdout
        held.close()
        if moment == "being removed":  # by its own name it is what was asked for
            assert "it is being removed" in run("backup", "verify", str(going.path), code=1).output


def test_an_earlier_moment_by_id_and_by_time(run: Run, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        for hour in range(5):
            store.stream("hours").add({"h": hour}, f"{1_714_521_600_000 + 3_600_000 * hour}-0")  # 2024-05-01T00:00Z
    run("backup", "kept")
    for until in ("2024-05-01T02:30:00Z", "2024-05-01 04:30:00+02:00", "1714528800000-0", "1714528800000"):
        (done,) = objects(
            run("restore", "kept", "--stream", "hours", "--as", "t", "--to", "t", "--until", until, "--json")
        )
        assert done["entries"] == 3, until
        (tmp_path / "t").rename(tmp_path / f"t{len(list(tmp_path.iterdir()))}")
    assert "neither an ID" in run("restore", "kept", "--to", "t", "--until", "noon", code=2).stderr


def test_a_repair_leaves_a_backup_alone(run: Run, directory: Path) -> None:
    """It wrote to logs that other backups share, and none of them was what its manifest says any more."""
    run("backup", "backups")
    backup = find_backup(Path("backups")).path
    flip_in_place(next(backup.rglob("*.seg")), 100)
    before = {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()}
    assert "it is a backup" in run("repair", "--dir", str(backup), "--force", code=1).stderr
    assert "would do" in run("repair", "--dir", str(backup), "--dry-run", code=1).stdout
    assert {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()} == before


def test_a_rule_of_retention_comes_along_and_is_told(run: Run, directory: Path, tmp_path: Path) -> None:
    """What was restored went again a second later by the rule that had removed it, and nobody had said so."""
    with diskstream.open(directory, retention_interval_ms=0) as store:
        store.stream("x").set_retention(max_entries=3)
    run("backup", "backups")
    said = run("restore", "backups", "--to", "again").stderr
    assert "x has its rule of retention (max_entries=3" in said
    assert f"diskstream retention clear x --dir {tmp_path / 'again'}" in said
    rows = objects(run("restore", "backups", "--to", str(directory), "--stream", "x", "--as", "y", "--json"))
    assert rows[0]["retention"]["y"]["max_entries"] == 3
    assert "retention" not in run("restore", "backups", "--to", "other", "--stream", "empty").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backup", "ls", "nowhere"), "no such directory"),
        (("backup", "ls", "store"), "holds no backups"),
        (("backup", "verify", "nowhere"), "no such backup"),
        (("backup", "store/within"), "within the store"),
        (("backup", "kept", "--stream", "none*"), "no stream matches"),
        (("restore", "store", "--to", "t"), "backup create DEST --dir store makes one of it"),
        (("restore", "kept2", "--to", "redis://:secret@127.0.0.1:1/0"), "cannot connect"),
        (("restore", "kept2", "--to", "t", "--stream", "none"), "no stream"),
        (("restore", "kept2", "--to", "store"), "a store already"),
    ],
)
def test_what_cannot_be_says_what_and_what_to_do(run: Run, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    run("backup", "kept2")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(*words, code=1)
    assert said in result.stderr
    assert "secret" not in result.output
    assert "Traceback" not in result.output
    assert set(before) >= {path.name for path in tmp_path.iterdir()} - {"kept"}


def test_where_no_backup_was_ever_finished_there_is_no_sound_one(run: Run, tmp_path: Path) -> None:
    """It said 0 faults, and ended with 0: whoever looks at that each night believed to have backups."""
    run("backup", "kept")
    (made,) = (each for each in (tmp_path / "kept").iterdir() if each.is_dir())
    made.rename(tmp_path / "kept" / ".new-0123456789abcdef")
    assert "there is no backup in it yet" in run("backup", "verify", "kept", code=1).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("backup",),
        ("backup", "a", "b"),
        ("backup", "a", "--rate", "much"),
        ("backup", "a", "--rate", "0"),
        ("backup", "prune", "a"),
        ("backup", "prune", "a", "--keep", "0"),
        ("backup", "prune", "a", "--older-than", "soon"),
        ("restore", "store"),
        ("restore", "store", "--to", "t", "--as", "x"),
        ("restore", "store", "--to", "t", "--stream", "x", "--as", ""),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    run(*words, code=2)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("program", ["backup", "replay"])
def test_the_programs_in_tools_are_the_same(program: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, str(root / "tools" / f"{program}.py"), "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


def everything_below(path: Path) -> list[tuple[str, int, int]]:
    return sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in path.rglob("*"))


@pytest.mark.parametrize(
    "words", [("--to", "new"), ("--to", "new", "-s", "a", "--as", "b"), ("--to", "store", "-s", "a", "--as", "b")]
)
def test_a_dry_run_of_a_restore_says_what_it_would_do_and_makes_nothing(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with diskstream.open(tmp_path / "store") as store:
        names = store.streams()
        assert b"b" not in names
        store.rename(names[0], "a")
    run("backup", "kept")
    before = everything_below(tmp_path)
    (told,) = objects(run("restore", "kept", *words, "--dry-run", "--json"))
    assert everything_below(tmp_path) == before
    assert told["dry_run"]
    assert f"{told['entries']:,} entries" in run("restore", "kept", *words, "--dry-run").stdout
    (done,) = objects(run("restore", "kept", *words, "--json"))
    assert told["entries"] == done["entries"]
    assert told["into_store"] == (words[1] == "store")
    assert len(told["streams"]) == len(done["streams"])
    if not told["into_store"]:
        assert (told["files"], told["size_bytes"]) == (done["files"], done["size_bytes"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "store"), "there is a store already"),
        (("--to", "store", "-s", "a"), "has a stream a already"),
        (("--to", "kept"), "there is something already"),
        (("--to", "new", "-s", "nobody"), "nobody"),
    ],
)
def test_a_dry_run_of_a_restore_is_refused_as_the_restore_is(
    run: Run, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.rename(store.streams()[0], "a")
    run("backup", "kept")
    for more in (["--dry-run"], []):
        assert told in run("restore", "kept", *words, *more, code=1).stderr


def test_what_tells_whose_backups_they_are_may_be_gone(run: Run, tmp_path: Path) -> None:
    """`ls` said to make a backup there, which `create` refused: it held something else, the backups."""
    run("backup", "create", "kept")
    (name,) = (each.name for each in (tmp_path / "kept").iterdir() if each.is_dir())
    (tmp_path / "kept" / "backups.json").write_bytes(b"\xff rot")
    for _ in range(2):
        for words in (["ls", "kept"], ["create", "kept"], ["verify", "kept"]):
            said = run("backup", *words, code=1).stderr
            assert "its backups.json" in said
            assert "by its own directory; make new ones in another directory" in said
        run("backup", "verify", f"kept/{name}")
        (tmp_path / "kept" / "backups.json").unlink(missing_ok=True)
    run("restore", f"kept/{name}", "--to", "again")
    run("backup", "create", "other")


def test_a_restore_names_streams_and_not_their_directories(run: Run, tmp_path: Path) -> None:
    """Those of a new store were told by their directories; those that were put into a store, by their names."""
    with diskstream.open(tmp_path / "store") as store:
        for name in ("a b", "long" * 100):
            store.stream(name).add({"n": 1})
        names = sorted(name.decode("utf-8", "surrogateescape") for name in store.streams())
    run("backup", "kept")
    (told,) = objects(run("restore", "kept", "--to", "new", "--json"))
    assert sorted(told["streams"]) == names
    assert set(told["streams"].values()) == {"whole"}
    with diskstream.open(tmp_path / "other") as other:
        other.stream("own").add({"n": 1})
    (told,) = objects(run("restore", "kept", "--to", "other", "--stream", "a b", "--as", "c d", "--json"))
    assert told["streams"] == {"c d": "copied"}
    (told,) = objects(run("restore", "kept", "--to", "renamed", "--stream", "a b", "--as", "c d", "--json"))
    assert told["streams"] == {"c d": "whole"}
