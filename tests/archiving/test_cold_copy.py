"""A copy of which a part lies in object storage: what is lost there is not trimmed, though the cache still has it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream.archiving import cold_parts
from tests.archiving.test_archive import until
from tests.archiving.test_away import following
from tests.archiving.test_refused import finding
from tests.archiving.world import World


def moved(world: World) -> Path:
    """Two segments, the first of which is cold, and in the cache; `held` keeps all of it at the source."""
    place = world.directory.with_name("cold")
    place.mkdir()
    for first in (1, 101):
        world.fill("s", 100, first=first)
        if first == 1:
            world.client.xgroup_create("s", "held", "0")
        world.archive()
        with diskstream.open(world.directory, segment_bytes=8192) as store:
            store.stream("s").seal()
    with diskstream.open(world.directory) as store:
        store.stream("s").seal()
    world.run("cold", "move", "s", "--dir", str(world.directory), "--to", f"file://{place}", "--keep-entries", "0")
    world.archive("--trim")
    world.client.xgroup_destroy("s", "held")
    return place


def unmount(place: Path) -> None:
    place.rename(place.with_name("elsewhere"))


def lose(place: Path) -> None:
    next(place.rglob("*.seg")).unlink()


def cut(place: Path) -> None:
    file = next(place.rglob("*.seg"))
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("harm", [unmount, lose, cut])
def test_what_object_storage_lost_is_not_trimmed(world: World, harm: Callable[[Path], None]) -> None:
    place = moved(world)
    harm(place)
    said = finding(world, "--trim")
    assert f"file://{place}" in said
    assert "so nothing was trimmed" in said or "a disk may be missing" in said
    assert world.client.xlen("s") == 200


def copied(world: World) -> int:
    with diskstream.open(world.directory, read_only=True) as store:
        return len(store.stream("s"))


@pytest.fixture
def never_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there a moment ago is asked for again."""
    monkeypatch.setattr(cold_parts, "_SURE_S", 0.0)


@pytest.mark.usefixtures("never_sure")
@pytest.mark.parametrize("harm", [unmount, lose, cut])
def test_nor_is_what_was_lost_since_the_run_began(world: World, harm: Callable[[Path], None]) -> None:
    """It was looked at when the archive began to follow, and trimmed once a group let go of it, days later."""
    place = moved(world)
    world.client.xgroup_create("s", "held", "0")
    said: list[str] = []
    with following(world, trim=True, on_remark=lambda _, what: said.append(what)) as run:
        until(lambda: world.client.exists("diskstream:archiver:s"))
        world.fill("s", 5, first=201)
        until(lambda: copied(world) == 205)
        harm(place)
        world.client.xgroup_destroy("s", "held")
        until(lambda: any("a trim was put off" in each for each in said))
        world.fill("s", 5, first=206)
        until(lambda: copied(world) == 210)  # what comes is copied all the same
    assert f"what was copied is not trimmed: file://{place}" in run.result.reports[0].findings[0]
    assert world.client.xlen("s") == 210


def test_what_is_there_is(world: World) -> None:
    moved(world)
    assert world.archive("--trim")["s"]["trimmed"] == 200


def test_a_dry_run_goes_on_with_the_other_streams(world: World) -> None:
    place = moved(world)
    world.fill("other", 3)
    unmount(place)
    shutil.rmtree(world.directory / "cold-cache")
    plans = world.archive("--dry-run", code=1)
    assert "a disk may be missing" in plans["s"]["error"]
    assert (plans["other"]["error"], plans["other"]["entries"]) == (None, 3)
