"""What an archiver refuses or finds: two at once, sources that changed, copies that are not its own, full disks."""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.archiving.leasing import LEASE_PREFIX
from diskstream.checkpoints import Checkpoints
from diskstream.errors import DiskFullError
from diskstream.stream import Stream
from tests.archiving.world import ROOT, World
from tests.conftest import RedisServer, _start_redis, _stop
from tests.server.client import serving

LEASE = LEASE_PREFIX.decode()


def finding(world: World, *words: str, key: str = "s") -> str:
    """What is found about a stream; the verb ends with status 1."""
    report = world.archive(*words, key=key, code=1)[key]
    return " ".join([*report["findings"], report["error"] or "", report["hint"] or ""])


# --- two at once ------------------------------------------------------------------------------------------------------


def test_two_archivers_of_one_directory_do_not_mix(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    fd = os.open(world.directory / "archives" / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.pwrite(fd, b"process 1234 on elsewhere\n", 0)
    os.ftruncate(fd, 26)
    assert "process 1234 on elsewhere archives into it" in world.refused()
    os.close(fd)
    world.archive()


def test_two_directories_do_not_both_trim_one_stream(world: World) -> None:
    world.fill("s", 3)
    world.client.set(f"{LEASE}s", "another-store process 77 on elsewhere 0123")
    said = finding(world, "--trim")
    assert "another archiver, process 77 on elsewhere, trims the stream 's'" in said
    assert len(world.source("s")) == 3
    assert world.client.get(f"{LEASE}s").startswith(b"another-store")  # it is not ours to remove
    world.archive()  # without --trim there is nothing to agree on
    world.client.delete(f"{LEASE}s")
    assert world.archive("--trim")["s"]["trimmed"] == 3


def test_the_lease_of_an_archiver_that_was_killed_is_taken_over_by_the_next_one_into_the_same_store(
    world: World,
) -> None:
    world.fill("s", 3)
    world.archive()
    with diskstream.open(world.directory) as store, Checkpoints(store).locked() as identity:
        world.client.set(f"{LEASE}s", f"{identity} process 77 on here 0123")
    assert world.archive("--trim")["s"]["trimmed"] == 3


def test_an_archiver_that_lost_its_lease_trims_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("s", 3)
    real = Stream.wait_durable

    def lose(self: Stream, *words: Any) -> bool:
        world.client.set(f"{LEASE}s", "another-store process 77 on elsewhere 0123")
        return real(self, *words)

    monkeypatch.setattr(Stream, "wait_durable", lose)
    assert "another archiver, process 77 on elsewhere" in finding(world, "--trim")
    assert len(world.source("s")) == 3


# --- copies that are not ours -----------------------------------------------------------------------------------------


def test_a_stream_that_no_archiver_made_is_left_alone(world: World) -> None:
    world.fill("s", 3)
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"mine": 1}, id="1-1")
    assert "it exists, and was not made by an archiver" in finding(world)
    assert len(world.copy("s")) == 1


def test_entries_added_to_a_copy_are_found(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"mine": 1}, id="9-1")
    assert "it ends at 9-1, behind the source" in finding(world)
    world.fill("s", 7, first=4)
    world.client.xadd("s", {"theirs": 1}, "20-1")
    assert "its entry 9-1 is another one" in finding(world)
    world.client.xdel("s", "9-1")
    assert "the copy lacks its entry 8-1" in finding(world)
    assert len(world.source("s")) == 10


def test_a_copy_that_was_deleted_is_not_begun_anew_in_silence(world: World) -> None:
    world.fill("s", 3)
    world.archive("--trim")
    with diskstream.open(world.directory) as store:
        store.delete("s")
    world.fill("s", 3, first=4)
    said = finding(world)
    assert "was copied and read back up to 3-1: it was deleted or replaced" in said
    Path(said.rpartition("remove its checkpoint, ")[2].strip()).unlink()
    assert world.archive()["s"]["entries"] == 3


def test_a_damaged_checkpoint_is_not_guessed(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    checkpoint = next((world.directory / "archives").glob("*.json"))
    good = checkpoint.read_text()
    for bad in ("", "{}", "[]", good.replace('"3-1"', '"2-1"'), good.replace('"format": 1', '"format": -1')):
        checkpoint.write_text(bad)
        assert "this checkpoint cannot be read" in finding(world)
    checkpoint.write_text(good.replace('"format": 1', '"format": 2'))
    assert "upgrade" in finding(world)
    checkpoint.write_text(good)
    world.archive()


def test_a_directory_that_is_no_store_is_refused(world: World, tmp_path: Path) -> None:
    world.fill("s", 3)
    world.directory.mkdir()
    (world.directory / "letters.txt").write_text("dear")
    assert "it holds something else" in world.refused()
    assert "holds something else" in world.refused("--dry-run")


# --- disks ------------------------------------------------------------------------------------------------------------


def test_a_full_disk_ends_it_and_the_next_run_finishes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world.fill("s", 500)
    real, turns = Stream.add_rows, iter(range(100))

    def add(self: Stream, *words: Any, **named: Any) -> Any:
        if next(turns) == 3:
            raise DiskFullError("store", "extend", 28, "No space left on device")
        return real(self, *words, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "add_rows", add)
        assert "free some space and try again" in world.refused("--batch", "20", "--trim")
    assert world.archive("--trim")["s"]["trimmed"] >= 440
    assert world.copy("s") == made
    assert world.source("s") == {}


def test_bytes_that_are_not_what_was_sent_are_trimmed_nowhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("s", 50)
    real = Stream.digest

    def digest(self: Stream, *words: Any) -> Any:
        found = real(self, *words)
        return type(found)(found.entries, found.size_bytes, (found.lanes[0] ^ 1, found.lanes[1]))

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "digest", digest)
        assert "are not the 50 that the source sent; nothing was trimmed" in finding(world, "--trim")
    assert len(world.source("s")) == 50
    assert world.archive("--trim")["s"]["trimmed"] == 50


# --- servers ----------------------------------------------------------------------------------------------------------


def test_a_replica_can_be_copied_but_not_trimmed(world: World, second: redis.Redis) -> None:
    world.fill("s", 10)
    ours = world.client.connection_pool.connection_kwargs
    world.client.config_set("repl-diskless-sync-delay", "0")
    second.replicaof(ours["host"], ours["port"])
    while second.info("replication")["master_link_status"] != "up" or not second.exists("s"):
        pass
    url = "redis://127.0.0.1:{port}/9".format(**second.connection_pool.connection_kwargs)
    replica = World(url, second, world.directory)
    assert "it is a replica, which cannot be trimmed" in replica.refused("--trim")
    assert "it is a replica" in replica.run("restore", "--to", url, "--dir", str(_store(world)), code=1).stderr
    assert replica.archive()["s"]["entries"] == 10
    assert world.archive("--trim")["s"]["trimmed"] == 10  # its primary is the same source


def _store(world: World) -> Path:
    path = world.directory.with_name("other")
    with diskstream.open(path) as store:
        store.stream("s").add({"a": 1})
    return path


def test_a_server_without_room_is_trimmed_all_the_same(world: World, second: redis.Redis) -> None:
    url = "redis://127.0.0.1:{port}/9".format(**second.connection_pool.connection_kwargs)
    full = World(url, second, world.directory)
    full.fill("s", 1000, size=500)
    second.config_set("maxmemory", "1mb")
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        second.xadd("s", {"a": 1})
    report = full.archive("--trim")["s"]
    assert report["trimmed"] == 1000
    assert "no room for a lease" in report["notes"][0]
    with diskstream.open(_store(world)):
        pass
    second.config_set("maxmemory", "0")
    second.set("ballast", "x" * 2_000_000)
    second.config_set("maxmemory", "1mb")
    words = ("restore", "--to", url, "--dir", str(world.directory), "--key", "back", "--stream", "s")
    refused = full.run(*words, "--json", code=1)
    assert "out of memory" in " ".join(refused.stderr.split())
    (told,) = map(json.loads, refused.stdout.splitlines())  # a program hears of it too
    assert (told["stream"], told["key"], "out of memory" in told["error"]) == ("s", "back", True)
    second.config_set("maxmemory", "0")
    full.run(*words)
    assert second.xlen("back") == 1000


def test_passwords_and_rights_that_are_missing_are_told(world: World) -> None:
    world.fill("s", 3)
    client = world.client
    client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@connection", "+info", "-xrange")
    try:
        url = world.url.replace("redis://", "redis://reader:pw@")
        said = " ".join(
            world.run("archive", "--from", url, "--key", "s", "--to", str(world.directory), code=1).stderr.split()
        )
        assert "its ACL forbids this" in said
        wrong = world.url.replace("redis://", "redis://reader:secret@")
        result = world.run("archive", "--from", wrong, "--key", "s", "--to", str(world.directory), code=1)
        assert "it wants another password" in result.stderr
        assert "secret" not in result.output
        client.execute_command("ACL", "SETUSER", "reader", "+xrange")
        world.run("archive", "--from", url, "--key", "s", "--to", str(world.directory))
        said = world.run("archive", "--from", url, "--key", "s", "--to", str(world.directory), "--trim", code=1).stderr
        assert "its ACL forbids this" in " ".join(said.split())
    finally:
        client.execute_command("ACL", "DELUSER", "reader")
    assert len(world.source("s")) == 3


def test_a_right_that_a_script_wants_is_told_of_as_any_other(world: World) -> None:
    """It said "it refused", with the number of the script's line and no way out."""
    world.fill("s", 3)
    rights = ("+@read", "+@connection", "+@transaction", "+info", "+eval", "+get", "+set", "+del")
    world.client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", *rights)
    try:
        url = world.url.replace("redis://", "redis://reader:pw@")
        words = ("archive", "--from", url, "--key", "s", "--to", str(world.directory), "--trim")
        said = " ".join(world.run(*words, code=1).stderr.split())
        assert "cannot trim the stream 's': its ACL forbids this" in said
        assert "grant this user the commands and the keys" in said
        world.client.execute_command("ACL", "SETUSER", "reader", "+xtrim")
        world.run(*words)
    finally:
        world.client.execute_command("ACL", "DELUSER", "reader")
    assert world.source("s") == {}


def test_a_password_that_was_not_given_is_not_another_one(world: World, second: redis.Redis) -> None:
    """Where none was given, "it wants another password" sent people to look for a mistake in one."""
    port = second.connection_pool.connection_kwargs["port"]
    second.config_set("requirepass", "pw")
    try:
        words = ("archive", "--key", "s", "--to", str(world.directory), "--from")
        told = " ".join(world.run(*words, f"redis://127.0.0.1:{port}/9", code=1).stderr.split())
        assert "it wants a password" in told
        assert "hint: redis://USER:PASSWORD@HOST:PORT/DB" in told
        assert "it wants another password" in world.run(*words, f"redis://:x@127.0.0.1:{port}/9", code=1).stderr
    finally:
        second.config_set("requirepass", "")


def test_a_database_that_there_is_not_is_named_with_where_its_number_stands(world: World) -> None:
    url = f"{world.url.rpartition('/')[0]}/99"
    told = " ".join(
        world.run("archive", "--key", "s", "--to", str(world.directory), "--from", url, code=1).stderr.split()
    )
    assert "it has no database 99" in told
    assert "hint: behind the last / of the address stands its number" in told


def test_a_server_of_ours_is_archived_and_not_trimmed(world: World, tmp_path: Path) -> None:
    """Each of its streams was given up in the midst, with the text of a script that it does not run."""
    with diskstream.open(tmp_path / "served") as store:
        store.stream("s").add({"a": 1}, id="1-0")
    with serving(tmp_path / "served") as server:
        ours = World(f"redis://127.0.0.1:{server.port}", world.client, world.directory)
        for words in (("--trim",), ("--trim", "--dry-run")):
            told = ours.refused(*words)
            assert "it is a diskstream serve, which runs no scripts" in told
            assert "hint: leave --trim" in told
        assert not world.directory.exists()
        assert ours.archive()["s"]["entries"] == 1


def test_the_rights_that_the_page_lists_are_enough(world: World) -> None:
    page = (ROOT / "docs" / "archiving.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| rights |"))
    world.fill("s", 30)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "c", {"s": ">"}, count=20)
    world.client.xack("s", "g", *(f"{number}-1" for number in range(1, 15)))
    rights = re.findall(r"\+[a-z|]+", row)
    url = world.url.replace("redis://", "redis://mover:pw@")
    world.client.execute_command("ACL", "SETUSER", "mover", "reset", "on", ">pw", "~*", *rights)
    try:
        world.run("archive", "--from", url, "--key", "s*", "--to", str(world.directory), "--trim")
        world.run("archive", "--from", url, "--key", "s*", "--to", str(world.directory), "--dry-run")
    finally:
        world.client.execute_command("ACL", "DELUSER", "mover")
    assert len(world.source("s")) == 16


def test_the_rights_that_the_page_lists_are_enough_to_restore(world: World) -> None:
    page = (ROOT / "docs" / "archiving.md").read_text(encoding="utf-8")
    said = page.partition("A user of the Redis wants the rights")[2].partition("\n\n")[0]
    plain, _, replacing = said.partition("for `--replace`")
    world.fill("s", 30)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "c", {"s": ">"}, count=20)
    world.archive()
    world.client.delete("s")
    url = world.url.replace("redis://", "redis://mover:pw@")
    words = ["restore", "--to", url, "--dir", str(world.directory), "--stream", "s"]
    rights = re.findall(r"\+[a-z|]+", plain)
    world.client.execute_command("ACL", "SETUSER", "mover", "reset", "on", ">pw", "~*", *rights)
    try:
        world.run(*words)
        world.run(*words, "--key", "part", "--start", "5")
        world.client.execute_command("ACL", "SETUSER", "mover", *re.findall(r"\+[a-z|]+", replacing))
        world.client.xadd("s", {"n": "more"})
        world.client.set("text", "x")
        for key in ("s", "text"):
            world.run(*words, "--key", key, "--replace", "--force")
    finally:
        world.client.execute_command("ACL", "DELUSER", "mover")
    assert len(world.source("s")) == len(world.source("text")) == 30


def test_a_cluster_is_refused(world: World, tmp_path: Path, redis_server: RedisServer) -> None:
    process, port = _start_redis("redis-server", tmp_path, {"save": "", "cluster-enabled": "yes"})
    try:
        cluster = World(f"redis://127.0.0.1:{port}", world.client, world.directory)
        assert "a node of a cluster" in cluster.refused()
        assert not world.directory.exists()
        world.fill("s", 1)
        world.archive()
        told = world.run("restore", "--to", cluster.url, "--dir", str(world.directory), "--stream", "s", code=1).stderr
        assert "a node of a cluster" in told
        assert "restore to a server that is in no cluster" in " ".join(told.split())
    finally:
        _stop(process)


def test_nobody_there_and_no_address_at_all(world: World) -> None:
    words = ("archive", "--key", "s", "--to", str(world.directory), "--from")
    said = world.run(*words, "redis://user:topsecret@127.0.0.1:1/", code=1).stderr
    assert "the connection failed" in " ".join(said.split())
    assert "topsecret" not in said
    assert "a Redis is at redis://" in " ".join(world.run(*words, "http://localhost", code=2).stderr.split())


@pytest.mark.parametrize(("behind", "code"), [("/orders", 2), ("/0/1", 2), ("/0?no_such_setting=1", 2), ("/0?db=x", 1)])
def test_an_address_that_cannot_be_read_is_never_taken_for_database_0(world: World, behind: str, code: int) -> None:
    """redis-py takes 0 for a name: streams of another database were archived, and trimmed."""
    world.fill("s", 3)
    server = world.url.rpartition("/")[0]
    words = ("archive", "--key", "s", "--to", str(world.directory), "--trim", "--from", server + behind)
    assert "is no address of a Redis" in " ".join(world.run(*words, code=code).stderr.split())
    assert not world.directory.exists()
    assert "no address" in world.run(*words[:-1], "redis://[::1", code=2).stderr
    assert "no address" in world.run(*words[:-1], "redis://a..b/0", code=1).stderr  # a name that no host can have


def test_a_server_that_goes_away_ends_it_and_a_second_run_finishes(world: World, tmp_path: Path) -> None:
    process, port = _start_redis("redis-server", tmp_path, {"save": "", "appendonly": "yes"})
    url = f"redis://127.0.0.1:{port}/9"
    with redis.Redis("127.0.0.1", port, 9) as client:
        away = World(url, client, world.directory)
        made = away.fill("s", 3000)
        archiver = away.process("--key", "s", "--trim", "--batch", "50", "--rate", "2000")
        while (
            archiver.poll() is None and client.xlen("s") == 3000 and not list(world.directory.glob("archives/*.json"))
        ):
            pass
        process.kill()
        process.wait()
        told, said = archiver.communicate(timeout=60)
        assert archiver.returncode == 1
        assert "run this again" in said
        (report,) = map(json.loads, told.splitlines())
        assert (report["stream"], report["hint"] in said) == ("s", True)
    again = subprocess.Popen(
        ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(tmp_path), "--appendonly", "yes"],
        stdout=subprocess.DEVNULL,
    )
    try:
        with redis.Redis("127.0.0.1", port, 9) as client:
            while not _answers(client):
                pass
            away = World(url, client, world.directory)
            away.archive("--trim", "--jobs", "1")
            assert away.source("s") == {}
            assert away.copy("s") == made
    finally:
        _stop(again)  # type: ignore[arg-type]  # its output is bytes, and not read


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def test_the_program_in_tools_is_the_verb(world: World) -> None:
    world.fill("s", 3)
    command = [sys.executable, str(ROOT / "tools" / "archive.py"), "--from", world.url, "--key", "s"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--to", str(world.directory)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "3 entries of 1 stream " in done.stdout
    assert done.stderr == ""


def test_in_a_server_of_ours_no_key_is_replaced_and_what_to_do_is_said(world: World, tmp_path: Path) -> None:
    """The hint was to name a store as a replay does, which no restore can."""
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"a": 1}, id="1-0")
    with serving(tmp_path / "served") as server:
        url = f"redis://127.0.0.1:{server.port}"
        words = ["restore", "--to", url, "--dir", str(world.directory), "--stream", "s", "--replace", "--force"]
        world.run(*words)  # there is nothing to be replaced
        with redis.Redis(port=server.port) as client:
            client.xadd("s", {"more": 1})
            told = world.run(*words, code=1)
            assert "a diskstream serve runs no script, by which a key is replaced" in told.stderr
            assert client.xlen("s") == 2
