"""An archiver that is killed loses nothing and doubles nothing, wherever the kill falls, whatever goes on meanwhile."""

import random
import subprocess
import sys

import diskstream
from diskstream.archiving.marks import load
from diskstream.checkpoints import Checkpoints
from tests.archiving.producers import Traffic
from tests.archiving.world import ROOT, World

KILLS = 5


def test_killed_before_each_step_of_the_protocol(world: World) -> None:
    command = [sys.executable, "-m", "tests.archiving.steps", world.url, str(world.directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert [int(steps) > 25 for steps in done.stdout.split()] == [True, True]  # of an archive, of a restore


def test_killed_while_producers_add_and_groups_consume(world: World) -> None:
    chance = random.Random(6)
    keys = ["race:1", "race:2", "race:3"]
    words = ("--key", "race:*", "--trim", "--follow", "--batch", "40")
    with Traffic(world.url, keys, most=10_000_000) as traffic:
        for _ in range(KILLS):
            process = world.process(*words)
            wanted = 1 + _trimmed(world, keys) + chance.randrange(500)
            while process.poll() is None and _trimmed(world, keys) < wanted:
                world.client.ping()  # whose turns let theirs go by
            assert process.poll() is None, process.communicate()
            process.kill()
            process.communicate()
            _judge_now(world, traffic, keys)
        traffic.stop()
        traffic.acknowledge_all()
        reports = world.archive("--trim", key="race:*")
    for key in keys:
        made = {
            entry_id: list(zip((b"n", b"text"), values, strict=True)) for entry_id, values in traffic.made[key].items()
        }
        assert world.source(key) == {}
        assert world.copy(key) == made
        with diskstream.open(world.directory) as store:
            mark = load(Checkpoints(store), key.encode())
            assert mark is not None
            assert mark.verified == store.stream(key).digest()
            assert str(mark.verified) == reports[key]["digest"]
            assert store.verify().ok
        assert (mark.trimmed_to, mark.missed) == (mark.verified_to, 0)
        assert {group.name: group.pending for group in world.state(key).groups} == {b"slow": [], b"workers": []}


def _trimmed(world: World, keys: list[str]) -> int:
    """Entries that are gone from the source, of all that were added."""
    found = [world.client.xinfo_stream(key) for key in keys]
    return sum(each["entries-added"] - each["length"] for each in found)


def _judge_now(world: World, traffic: Traffic, keys: list[str]) -> None:
    """What is gone from the source is in the copy. Producers go on: what they made meanwhile is asked for last."""
    for key in keys:
        left = world.client.xinfo_stream(key)["first-entry"]
        copy = world.copy(key)
        oldest = _id(left[0].decode()) if left else (1 << 64, 0)
        gone = {entry_id for entry_id in list(traffic.made[key]) if _id(entry_id) < oldest}
        assert gone <= set(copy)


def _id(text: str) -> tuple[int, int]:
    ms, seq = text.split("-")
    return int(ms), int(seq)
