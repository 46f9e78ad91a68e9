"""A program that is killed at one step after the other of an archive, then of a restore, each time in a fork.

    python -m tests.archiving.steps URL DIRECTORY

Before each run the source gets entries and its group acknowledges some. The fork then archives with --trim and kills
itself before the n-th step: a command to the Redis, a read from it, a write to the store, a flush, a rename. Behind
each kill, and behind the run that finishes the work, copy and source are held against all that was ever produced.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import redis

import diskstream
from diskstream import mirroring
from diskstream.archiving import ArchiveOptions, Archiver, restore_stream, restoring, stream_copy, trimming
from diskstream.archiving.adding import EntriesWriter
from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.group_states import groups_of
from diskstream.archiving.restoring import _Restore
from diskstream.archiving.server import Server
from diskstream.copying import GroupState, state_of
from diskstream.engine.files import Files, NewFile
from diskstream.group import Group
from diskstream.stream import Stream
from tests.engine.children import say
from tests.engine.forks import ended, forked

KEY = b"orders"
BACK = b"back"
A_ROUND = 30
# What changes anything, or learns anything, outside of the process.
STEPS: tuple[tuple[Any, str], ...] = (
    (Server, "call"),
    (EntriesReader, "_ask"),
    (EntriesReader, "_take"),
    (Stream, "add_rows"),
    (Stream, "wait_durable"),
    (Stream, "set_id"),
    (Files, "create"),
    (Files, "rename"),
    (Files, "sync_dir"),
    (NewFile, "write"),
    (NewFile, "sync"),
    (mirroring, "fill_group"),
    (mirroring, "_assign"),
    (Group, "ack"),
    (Group, "set_id"),
    (EntriesWriter, "add"),
    (EntriesWriter, "_take"),
    (_Restore, "_put_pending"),
)


def kill_before(step: int) -> None:
    """From now on every step is counted, and the process killed before one of them."""
    taken = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **named)

        return run

    for owner, name in STEPS:
        setattr(owner, name, counted(getattr(owner, name)))


def killed_archive(url: str, directory: str, step: int) -> None:
    """In a fork, which says what went wrong."""
    kill_before(step)
    try:
        archive(url, directory)
    except BaseException:
        traceback.print_exc()
        raise


def archive(url: str, directory: str, fsync: str = "everysec") -> None:
    """All there is, in small batches and windows, and trims it in small steps."""
    stream_copy._WINDOW_ENTRIES = 20
    trimming.STEP_ENTRIES = 8
    with Server(url) as server, diskstream.open(directory, seal="manual", segment_bytes=1 << 13, fsync=fsync) as store:
        result = Archiver(server, store, [KEY], ArchiveOptions(trim=True, jobs=1, batch=7)).run()
    assert result.is_good, result.reports


def produce(client: Any, made: dict[str, bytes], number: int) -> None:
    """Some entries; the group is given them all and acknowledges all but the last few."""
    pipeline = client.pipeline(transaction=False)
    for each in range(A_ROUND):
        entry_id = f"{number + 1}-{each}"
        made[entry_id] = b"%d" % len(made)
        pipeline.xadd(KEY, {b"n": made[entry_id]}, entry_id)
    pipeline.execute()
    client.xreadgroup("workers", "one", {KEY: ">"}, count=10 * A_ROUND)
    pending = [row["message_id"] for row in client.xpending_range(KEY, "workers", "-", "+", 1 << 16)]
    if pending[:-5]:
        client.xack(KEY, "workers", *pending[:-5])


def judge(client: Any, directory: str, made: dict[str, bytes]) -> int:
    """Every entry is in the copy or at the source, in neither twice nor changed. Returns how many are gone there."""
    client.set_response_callback("XRANGE", lambda reply, **_options: reply)
    source = {each.decode(): words[1] for each, words in client.execute_command("XRANGE", KEY, "-", "+")}
    copied: list[tuple[str, bytes]] = []
    if (Path(directory) / "store.json").exists():
        with diskstream.open(directory, read_only=True) as store:
            copied = [(str(entry.id), entry["n"]) for entry in store.stream(KEY).range()]
    copy = dict(copied)
    assert len(copy) == len(copied), "an entry is in the copy twice"
    assert {**source, **copy} == made, "an entry is lost, or foreign, or not as it was"
    assert all(made[each] == value for each, value in source.items())
    pending = [row["message_id"].decode() for row in client.xpending_range(KEY, "workers", "-", "+", 1 << 16)]
    assert set(pending) <= set(source), "an entry was trimmed that a group had not acknowledged"
    return len(made) - len(source)


def main(url: str, directory: str) -> None:
    """Kills at step 1, 2, 3 and on, and lets a run finish behind each, until one has fewer steps."""
    client = redis.Redis.from_url(url)
    made: dict[str, bytes] = {}
    client.xgroup_create(KEY, "workers", "0", mkstream=True)
    step = 0
    code = -signal.SIGKILL
    while code == -signal.SIGKILL:
        step += 1
        produce(client, made, step)
        code = ended(forked(partial(killed_archive, url, directory, step)))
        judge(client, directory, made)
        archive(url, directory)
        judge(client, directory, made)
        with diskstream.open(directory, read_only=True) as store:
            assert pending_of(state_of(store.stream(KEY)).groups) == pending_at(url, KEY)
    assert code == 0, code
    pending = client.xpending_range(KEY, "workers", "-", "+", 1 << 16)
    client.xack(KEY, "workers", *(row["message_id"] for row in pending))
    archive(url, directory)
    assert judge(client, directory, made) == len(made)
    say(step)
    restore_again_and_again(url, directory, client)


# --- and back ---------------------------------------------------------------------------------------------------------


def pending_of(groups: list[GroupState]) -> list[tuple[bytes, str, bytes, int]]:
    """What is pending in all groups, without times."""
    return [
        (group.name, str(row.id), group.consumers[row.consumer].name, row.deliveries)
        for group in groups
        for row in group.pending
    ]


def pending_at(url: str, key: bytes) -> list[tuple[bytes, str, bytes, int]]:
    """The same of a Redis."""
    server = Server(url)
    try:
        return pending_of(groups_of(server, key))
    finally:
        server.close()


def restore(url: str, directory: str) -> None:
    """The stream, in small batches, under another name."""
    restoring._AT_ONCE = 20
    with diskstream.open(directory, read_only=True) as store:
        server = Server(url)
        restore_stream(store.stream(BACK), server)
        server.close()


def killed_restore(url: str, directory: str, step: int) -> None:
    """In a fork."""
    kill_before(step)
    try:
        restore(url, directory)
    except BaseException:
        traceback.print_exc()
        raise


def restore_again_and_again(url: str, directory: str, client: Any) -> None:
    """Kills a restore at step 1, 2, 3 and on: the key is there as a whole or not at all, and the next one finishes."""
    made: dict[str, bytes] = {}
    with diskstream.open(directory) as store:
        stream = store.stream(BACK)
        for number in range(1, 91):
            made[f"{number}-0"] = b"%d" % number
            stream.add({"n": number}, id=f"{number}-0")
        group = stream.group("workers", start="0")
        group.consumer("ann").read(count=30)
        group.consumer("bob").read(count=30)
        group.ack("3-0", "40-0")
        wanted = pending_of(state_of(stream).groups)
    assert len(wanted) == 58
    step, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        step += 1
        client.delete(BACK)
        code = ended(forked(partial(killed_restore, url, directory, step)))
        if client.exists(BACK):
            assert (entries_at(client), pending_at(url, BACK)) == (made, wanted), step
        restore(url, directory)
        assert (entries_at(client), pending_at(url, BACK)) == (made, wanted), step
        assert client.keys("diskstream:*") == []
    assert code == 0, code
    say(step)


def entries_at(client: Any) -> dict[str, bytes]:
    """The entries of the key that is restored."""
    return {each.decode(): words[1] for each, words in client.execute_command("XRANGE", BACK, "-", "+")}


if __name__ == "__main__":
    main(*sys.argv[1:])
