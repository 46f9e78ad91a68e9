"""What is wrong with one stream is told of that one, by its cause, by a run and by `--dry-run` alike."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.archiving.test_refused import finding
from tests.archiving.world import World


def checkpoint(world: World, key: str) -> Path:
    return world.directory / "archives" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def planned(world: World, *words: str, key: str = "*", code: int = 0) -> dict[str, dict[str, Any]]:
    return world.archive("--dry-run", *words, key=key, code=code)


def test_a_dry_run_tells_of_a_name_that_no_store_can_have_before_there_is_a_store(world: World) -> None:
    world.fill("s", 3)
    world.fill("x" * 5000, 3)
    plans = planned(world, code=1)
    assert "the name of a stream" in plans["x" * 5000]["error"]
    assert (plans["s"]["error"], plans["s"]["entries"]) == (None, 3)
    assert not world.directory.exists()


def test_a_dry_run_refuses_a_place_where_nothing_can_be_archived_to(world: World, tmp_path: Path) -> None:
    """A backup was said to be copied to; what a killed making of a store left was refused, and a run takes it."""
    world.fill("s", 3)
    world.archive()
    world.run("backup", "create", str(tmp_path / "backups"), "--dir", str(world.directory))
    (backup,) = (tmp_path / "backups").glob("2*")
    words = ["archive", "--from", world.url, "--key", "s", "--to"]
    assert "it is a backup" in world.run(*words, str(backup), code=1).stderr
    assert "it is a backup" in world.run(*words, str(backup), "--dry-run", code=1).stderr
    (tmp_path / "begun" / "streams").mkdir(parents=True)
    assert "would copy 3 entries" in world.run(*words, str(tmp_path / "begun"), "--dry-run").stdout
    world.run(*words, str(tmp_path / "begun"))


def newer(world: World) -> None:
    path = checkpoint(world, "s")
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))


def rotten(world: World) -> None:
    """The second of the three frames in the copy's log."""
    log = world.directory / "streams" / "s" / "00000001.log"
    data = log.read_bytes()
    place = data.index(b"the second one")
    log.write_bytes(data[:place] + b"\xff" + data[place + 1 :])


@pytest.mark.parametrize(
    ("harm", "said"), [(newer, "this version reads up to 1"), (rotten, "00000001.log: frame payload at offset")]
)
def test_one_that_cannot_be_read_is_named_by_its_cause_and_hides_no_other(world: World, harm: Any, said: str) -> None:
    world.fill("other", 3)
    for value in ("the first one", "the second one", "the third one"):
        world.client.xadd("s", {"value": value})
        world.archive()
    harm(world)
    world.client.xadd("s", {"value": "the fourth one"})
    world.fill("other", 2, first=4)
    plans = planned(world, code=1)
    assert said in plans["s"]["error"]
    assert (plans["other"]["error"], plans["other"]["entries"]) == (None, 2)
    found = finding(world, "--trim")
    assert said in found
    assert "deleted or replaced" not in found
    assert "remove its checkpoint" not in found
    assert world.client.xlen("s") == 4


def test_a_dry_run_says_of_a_source_that_is_gone_what_a_run_says(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    world.client.delete("s")
    assert world.archive(key="s")["s"]["gone"]
    plan = planned(world, key="s")["s"]
    assert (plan["gone"], plan["error"], plan["copied_to"]) == (True, None, "3-1")
    words = ["archive", "--from", world.url, "--key", "s", "--to", str(world.directory), "--dry-run"]
    assert world.run(*words).stdout == "s: the key is not at the source any more; the copy, up to 3-1, stays\n"
    assert planned(world, key="never", code=1)["never"]["error"] == "there is no such key"


def test_a_checkpoint_that_cannot_be_read_of_a_key_that_is_gone_hides_no_other(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    world.client.delete("s")
    world.fill("other", 3)
    checkpoint(world, "s").write_text("no JSON")
    words = ("--key", "other")
    assert "cannot be read" in planned(world, *words, key="s", code=1)["s"]["error"]
    reports = world.archive(*words, key="s", code=1)
    assert "cannot be read" in reports["s"]["error"]
    assert reports["other"]["entries"] == 3


def test_what_was_given_up_is_not_counted_as_read_back(world: World) -> None:
    world.fill("other", 3)
    world.fill("s", 3)
    world.archive()
    newer(world)
    words = ["archive", "--from", world.url, "--key", "*", "--to", str(world.directory)]
    assert "0 entries of 1 stream in" in world.run(*words, code=1).stdout
    assert json.loads(checkpoint(world, "s").read_text())["format"] == 2


def test_a_dry_run_counts_what_is_there_where_all_of_it_is_new(world: World) -> None:
    """What a failover took away was taken off what was to be copied: a replica that was behind has added less."""
    world.fill("s", 30)
    world.archive("--trim")
    world.client.delete("s")
    world.fill("s", 40, first=31)
    assert planned(world)["s"]["entries"] == 40
    assert world.archive(code=1)["s"]["entries"] == 40
