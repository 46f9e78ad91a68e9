"""Disks that are full, or that may not be written to: nothing is trimmed that is not safe, and it goes on later."""

from pathlib import Path

import diskstream
from diskstream.checkpoints import Checkpoints
from tests.archiving.world import World
from tests.engine.mounts import fill, small_disk, unwritable
from tests.engine.stand_ins import Watched


def test_a_disk_that_is_full_loses_nothing_and_the_next_run_finishes(world: World, tmp_path: Path) -> None:
    made = world.fill("s", 3000, size=1500)
    with small_disk(tmp_path / "disk", "4m") as disk:
        reserve = disk / "reserve"
        reserve.write_bytes(bytes(2 << 20))
        small = World(world.url, world.client, disk / "store")
        words = ("archive", "--from", small.url, "--key", "s", "--to", str(small.directory), "--trim", "--batch", "50")
        said = small.run(*words, code=1).stderr
        assert "free some space and try again" in " ".join(said.split())
        kept = small.copy("s")
        assert 0 < len(kept) < 3000
        assert {**kept, **world.source("s")} == made
        filler = fill(disk)
        small.run(*words, code=1)  # with no room at all, not for a checkpoint either
        assert {**small.copy("s"), **world.source("s")} == made
        filler.unlink()
        reserve.unlink()
        assert small.archive("--trim", key="s")["s"]["verified_entries"] == 3000
        assert small.copy("s") == made
        assert world.source("s") == {}


def test_a_program_is_told_what_was_done_before_a_full_disk_ended_it(world: World, tmp_path: Path) -> None:
    """It got no object, and nobody the number of entries that had been trimmed."""
    world.fill("a", 3)
    world.fill("s", 3000, size=1500)
    with small_disk(tmp_path / "disk", "2m") as disk:
        small = World(world.url, world.client, disk / "store")
        told = small.archive("--trim", "--jobs", "1", "--batch", "50", code=1)
        assert (told["a"]["error"], told["a"]["trimmed"]) == (None, 3)
        assert "No space left" in told["s"]["error"]
        assert told["s"]["trimmed"] == 3000 - len(world.source("s"))
        words = ("archive", "--from", small.url, "--key", "*", "--to", str(small.directory), "--jobs", "1")
        assert small.run(*words, code=1).stdout.splitlines()[0].startswith("stream ")


def test_a_directory_that_is_for_reading_only_is_told(world: World, tmp_path: Path) -> None:
    world.fill("s", 3)
    world.archive()
    world.fill("s", 3, first=4)
    with unwritable(world.directory, tmp_path / "view") as view:
        shown = World(world.url, world.client, view)
        assert "mounted for reading only" in shown.refused("--trim")
        shown.run("archive", "--from", world.url, "--key", "s", "--to", str(view), "--dry-run")
    assert len(world.source("s")) == 6


def test_a_checkpoint_is_durable_also_where_its_folder_was_made_by_who_died(tmp_path: Path) -> None:
    """He may have died before the folder's name was flushed: a power cut took it, and what was trimmed was known to
    none."""
    steps: list[tuple[str, Path]] = []
    with diskstream.open(tmp_path / "s", files=Watched(lambda *step: steps.append(step))) as store:
        (store.path / "archives").mkdir()
        steps.clear()
        checkpoints = Checkpoints(store)
        for number in range(3):
            checkpoints.write(b"x", {"n": number})
        assert steps.count(("sync_dir", store.path)) == 1
