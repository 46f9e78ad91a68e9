"""A store that is archived to, backed up and restored: the archive goes on there."""

from dataclasses import replace
from pathlib import Path

from diskstream.backups import check_backup, find_backup, make_backup, restore
from diskstream.backups.checking import Seen
from tests.archiving.world import World


def test_an_archive_goes_on_in_a_restored_store(world: World, tmp_path: Path) -> None:
    """Checkpoints were in no backup, and a copy without one counts as somebody else's."""
    made = world.fill("s", 100)
    assert world.archive("--trim", "--force")["s"]["trimmed"] == 100
    make_backup(world.directory, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    assert check_backup(backup, Seen()) == []
    restore(backup, tmp_path / "restored")
    made |= world.fill("s", 50, first=101)
    restored = replace(world, directory=tmp_path / "restored")
    report = restored.archive("--trim", "--force")["s"]
    assert (report["entries"], report["trimmed"], report["error"]) == (50, 50, None)
    assert restored.copy("s") == made
    assert world.client.xlen("s") == 0


def test_one_that_was_trimmed_behind_the_backup_says_what_is_missing(world: World, tmp_path: Path) -> None:
    world.fill("s", 100)
    world.archive("--trim", "--force")
    make_backup(world.directory, tmp_path / "backups")
    world.fill("s", 50, first=101)
    world.archive("--trim", "--force")
    restore(find_backup(tmp_path / "backups"), tmp_path / "restored")
    world.fill("s", 10, first=151)
    restored = replace(world, directory=tmp_path / "restored")
    result = restored.run(
        *("archive", "--from", world.url, "--key", "s", "--to", str(restored.directory), "--json"), code=1
    )
    assert "a gap: 50 entries" in result.stdout
    assert len(restored.copy("s")) == 110
