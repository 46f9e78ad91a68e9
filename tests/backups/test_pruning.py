"""Which backups may go."""

import dataclasses
import os
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diskstream.backups import (
    Backup,
    BackupError,
    Header,
    Repository,
    Settings,
    check_clock,
    has_its_files,
    make_backup,
    prune,
    restore,
    superfluous,
)
from diskstream.cli import main
from diskstream.errors import ArgumentError
from tests.backups.world import filled

DAY = 86_400_000


def backups(*facts: tuple[int, int]) -> list[Backup]:
    """Backups so many days old, and so many damaged streams in each."""
    return [
        Backup(Path(f"/{number}"), Header(number, (100 - days) * DAY, "", "", damaged=damaged))
        for number, (days, damaged) in enumerate(facts)
    ]


@pytest.mark.parametrize(
    ("facts", "keep", "days", "gone"),
    [
        ([(3, 0), (2, 0), (1, 0)], 1, None, [0, 1]),
        ([(3, 0), (2, 0), (1, 0)], 3, None, []),
        ([(30, 0), (20, 0), (1, 0)], None, 10, [0, 1]),
        ([(30, 0), (20, 0)], None, 10, [0]),  # the newest sound one stays, however old
        ([(30, 0), (20, 0), (1, 0)], 1, 25, [0]),
        ([(3, 0), (2, 1), (1, 1)], 1, None, []),  # damaged ones are not what one falls back to
        ([(4, 0), (3, 0), (2, 1), (1, 0)], 1, None, [0, 1, 2]),
    ],
)
def test_which_may_go(facts: list[tuple[int, int]], keep: int | None, days: int | None, gone: list[int]) -> None:
    older = None if days is None else days * DAY
    found = superfluous(backups(*facts), keep=keep, older_than_ms=older, now_ms=100 * DAY)
    assert [each.header.number for each in found if each.header] == gone


def test_what_makes_no_sense_is_refused() -> None:
    for keep, older in ((None, None), (0, None), (None, -1)):
        with pytest.raises(ArgumentError):
            superfluous([], keep=keep, older_than_ms=older)


def test_one_that_is_being_read_stays(tmp_path: Path) -> None:
    with filled(tmp_path / "store") as store:
        for _ in range(2):
            make_backup(store.path, tmp_path / "backups")
    repository = Repository.open(tmp_path / "backups")
    first, _ = repository.backups()
    with first.used(), pytest.raises(BackupError, match="being read"):
        prune(repository, [first])
    assert len(repository.backups()) == 2
    prune(repository, [first])
    assert len(repository.backups()) == 1


def test_those_behind_it_go_and_are_told_of(tmp_path: Path) -> None:
    """None went that was newer than one that was being read, and of those that had gone before nobody was told."""
    with filled(tmp_path / "store") as store:
        made = [make_backup(store.path, tmp_path / "backups") for _ in range(4)]
    second = Repository.open(tmp_path / "backups").backups()[1]
    with second.used():
        done = CliRunner().invoke(main, ["backup", "prune", str(tmp_path / "backups"), "--keep", "1", "--force"])
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [f"removed {made[0].path.name}", f"removed {made[2].path.name}"]
    assert "it is being read" in done.stderr
    assert [each.name for each in Repository.open(tmp_path / "backups").backups()] == [
        second.name,
        made[3].path.name,
    ]


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_one_that_lacks_a_file_is_not_what_is_kept(tmp_path: Path, how: str) -> None:
    """It was kept as the newest, and the only sound one removed."""
    with filled(tmp_path / "store") as store:
        made = [make_backup(store.path, tmp_path / "backups", Settings(full=True)) for _ in range(2)]
    (segment, *_) = sorted(made[1].path.rglob("*.seg"))
    segment.unlink() if how == "gone" else os.truncate(segment, 100)
    listed = Repository.open(tmp_path / "backups").backups(whole=True)
    assert superfluous(listed, keep=1, is_whole=has_its_files) == []
    assert [has_its_files(each) for each in listed] == [True, False]
    done = CliRunner().invoke(main, ["backup", "prune", str(tmp_path / "backups"), "--keep", "1", "--force"])
    assert done.output == "nothing to remove\n"


def test_one_whose_manifest_cannot_be_read_stays(tmp_path: Path) -> None:
    with filled(tmp_path / "store") as store:
        made = [make_backup(store.path, tmp_path / "backups") for _ in range(3)]
    (made[0].path / "backup.jsonl").write_text("{")
    repository = Repository.open(tmp_path / "backups")
    listed = repository.backups()
    assert [backup.header is None for backup in listed] == [True, False, False]
    assert [backup.path for backup in superfluous(listed, keep=1)] == [made[1].path]


def test_a_changed_byte_of_a_manifest_is_seen_and_nothing_is_removed_by_it(tmp_path: Path) -> None:
    with filled(tmp_path / "store") as store:
        made = [make_backup(store.path, tmp_path / "backups") for _ in range(2)]
    manifest = made[1].path / "backup.jsonl"
    text = manifest.read_bytes()
    repository = Repository.open(tmp_path / "backups")
    for at in range(0, len(text), 13):
        manifest.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        listed = repository.backups(whole=True)
        assert [backup.header is None for backup in listed] == [False, True], at
        assert superfluous(listed, keep=1) == [], at
    for length in range(0, len(text), 101):
        manifest.write_bytes(text[:length])
        assert repository.backups(whole=True)[1].header is None


def test_a_backup_of_some_streams_stands_for_none_of_all() -> None:
    """The only full one went, after as many of a single stream as were to be kept."""
    made = backups((5, 0), (4, 0), (3, 0), (2, 0), (1, 0))
    some = [
        Backup(each.path, dataclasses.replace(each.header, patterns=patterns))
        for each, patterns in zip(made, [(), (), ("jobs",), ("jobs",), ("other",)], strict=True)
        if each.header
    ]
    found = superfluous(some, keep=1, now_ms=100 * DAY)
    assert [each.header.number for each in found if each.header] == [0, 2]
    found = superfluous(some, older_than_ms=0, now_ms=100 * DAY)
    assert [each.header.number for each in found if each.header] == [0, 2]


def placed(*places: str) -> list[Backup]:
    """Sound backups of stores in these directories, the oldest first."""
    made = backups(*((len(places) - at, 0) for at in range(len(places))))
    return [
        Backup(each.path, dataclasses.replace(each.header, place=place))
        for each, place in zip(made, places, strict=True)
        if each.header
    ]


@pytest.mark.parametrize(
    ("places", "keep", "gone"),
    [
        (["/a", "/a", "/b", "/b", "/b"], 2, [2]),
        (["/a", "/b", "/a", "/b"], 1, [0, 1]),
        (["", "", "/a", "/a"], 2, [0, 1]),  # of before directories were noted, and there is one
        (["", "", "/a", "/b", "/b"], 2, [0]),  # they may be of /a, of which there is one other
        (["", "", "", "/a"], 2, [0, 1]),
    ],
)
def test_those_of_each_directory_count_by_themselves(places: list[str], keep: int, gone: list[int]) -> None:
    found = superfluous(placed(*places), keep=keep, now_ms=100 * DAY)
    assert [each.header.number for each in found if each.header] == gone


def test_those_of_a_restored_copy_are_not_taken_for_those_of_the_store(tmp_path: Path) -> None:
    """It has the same UUID: what was kept were backups of the copy alone, and the last one of the store went."""
    backed_up = tmp_path / "backups"
    with filled(tmp_path / "store") as store:
        restore(Backup(make_backup(store.path, backed_up).path, None), tmp_path / "copy")
        store.stream("orders").add({"only": "in the store"})
        of_store = make_backup(store.path, backed_up)
    for _ in range(2):
        make_backup(tmp_path / "copy", backed_up)
    done = CliRunner().invoke(main, ["backup", "prune", str(backed_up), "--keep", "1", "--force"])
    assert done.exit_code == 0, done.output
    left = Repository.open(backed_up).backups()
    assert [each.header.place for each in left if each.header] == [str(tmp_path / "store"), str(tmp_path / "copy")]
    assert left[0].path == of_store.path
    listed = CliRunner().invoke(main, ["backup", "ls", str(backed_up)]).output
    assert str(tmp_path / "store") in listed
    assert str(tmp_path / "copy") in listed


# --- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "keep", "said"),
    [
        ((3, 2, 1), None, None),
        ((30, 20, 1), None, None),
        ((30, 20), None, None),  # as often as ever
        ((52, 51, 50), None, "very old for how often"),
        ((52, 51, 50), 1, None),  # which stays whatever the time is
        ((95, 94, 93, 13, 12, 11), None, "very old for how often"),
        ((95, 94, 93, 11, 10), None, None),  # not older than those that may go
        ((30,), None, None),  # the newest stays anyway
        ((3, 2, -1), None, "made in the future"),
        ((3, 2, -1), 2, "made in the future"),
        ((), None, None),
    ],
)
def test_ages_that_the_clock_may_be_wrong_about_are_not_gone_by(
    days: tuple[int, ...], keep: int | None, said: str | None
) -> None:
    made = backups(*((each, 0) for each in days))
    with pytest.raises(BackupError, match=said) if said else nullcontext():
        check_clock(made, 10 * DAY, keep=keep, now_ms=100 * DAY)


@pytest.mark.parametrize(
    ("hours", "older_ms"),
    [
        ((62, 38, 14), DAY // 2),  # nightly ones, in the afternoon
        ((22 * 24, 15 * 24, 8 * 24), 7 * DAY),  # weekly ones
        ((48, 24, 0), 0),
        ((3 * 24, 2 * 24, 24), 0),
    ],
)
def test_ages_as_they_come_are_gone_by(hours: tuple[int, ...], older_ms: int) -> None:
    """They were refused, though the newest stays anyway."""
    made = [
        Backup(Path(f"/{number}"), Header(number, 100 * DAY - each * DAY // 24, "", ""))
        for number, each in enumerate(hours)
    ]
    check_clock(made, older_ms, now_ms=100 * DAY)
    assert len(superfluous(made, older_than_ms=older_ms, now_ms=100 * DAY)) == len(made) - 1


def three_and_a_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: int) -> Path:
    """Where three backups are, and the clock jumped since."""
    with filled(tmp_path / "store"):
        for _ in range(3):
            make_backup(tmp_path / "store", tmp_path / "backups", Settings())
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump_s * 1_000_000_000)
    return tmp_path / "backups"


def pruned(target: Path, *words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["backup", "prune", str(target), *words], input=given)


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_a_clock_that_jumped_removes_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A year ahead for a night, and of all backups the newest was left."""
    target = three_and_a_jump(tmp_path, monkeypatch, 365 * 86_400)
    done = pruned(target, "--older-than", "30d", *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "clock" in done.stderr
    assert "hint: set the clock right; --keep N" in " ".join(done.stderr.split())
    assert len(Repository.open(target).backups()) == 3
    assert pruned(target, "--keep", "2", *words, given="y\n").exit_code == 0


def test_who_insists_is_warned_and_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = three_and_a_jump(tmp_path, monkeypatch, 365 * 86_400)
    done = pruned(target, "--older-than", "30d", "--force")
    assert (done.exit_code, done.stdout.count("removed ")) == (0, 2)
    assert "warning: " in done.stderr
    assert "has the clock jumped?" in done.stderr
    assert len(Repository.open(target).backups()) == 1


def test_the_clock_does_not_matter_where_nothing_would_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = three_and_a_jump(tmp_path, monkeypatch, -365 * 86_400)
    done = pruned(target, "--older-than", "30d")
    assert (done.exit_code, done.output) == (0, "nothing to remove\n")
