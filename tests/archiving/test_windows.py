"""For how long messages of producers are remembered, on the way from a server and back to one."""

from pathlib import Path

import diskstream
from tests.archiving.test_restore import restore
from tests.archiving.world import World
from tests.server.client import Client, serving


def _windows(directory: Path) -> tuple[int, int]:
    with diskstream.open(directory, read_only=True) as store:
        told = store.stream("s").summary()
    return told.idmp_duration_s, told.idmp_max_size


def test_a_copy_remembers_for_as_long_as_its_source(world: World, tmp_path: Path) -> None:
    """It said 100 s of all; what is set later comes with the next run."""
    with diskstream.open(tmp_path / "served") as store:
        store.stream("s").add({"a": 1}, id="5-1")
        store.stream("s").configure_idempotence(duration_s=86_400, max_size=7)
    with serving(tmp_path / "served") as server:
        world.url = f"redis://127.0.0.1:{server.port}"
        world.archive()
        assert _windows(world.directory) == (86_400, 7)
        with Client.to(server) as client:
            client.call("XCFGSET", "s", "IDMP-DURATION", 3600)
        world.archive()
        assert _windows(world.directory) == (3600, 7)


def test_so_does_what_is_restored_to_a_server_that_remembers(world: World, tmp_path: Path) -> None:
    """It was left with those of the server, and what was sent twice within a day was added twice."""
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"a": 1}, id="5-1")
        store.stream("s").configure_idempotence(duration_s=86_400, max_size=7)
    with serving(tmp_path / "served") as server:
        world.url = f"redis://127.0.0.1:{server.port}"
        assert restore(world, "--stream", "s")["notes"] == []
    assert _windows(tmp_path / "served") == (86_400, 7)


def test_a_server_that_remembers_nothing_is_told_of(world: World) -> None:
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"a": 1}, id="5-1")
        store.stream("s").configure_idempotence(duration_s=86_400, max_size=1)
    assert restore(world, "--stream", "s")["notes"] == [
        "the windows of idempotent appends (86,400 seconds, 1 message of a producer) are left out: this server has none"
    ]
