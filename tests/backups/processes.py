"""What processes beside a test do with backups: die at each step, and write meanwhile."""

import itertools
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import diskstream
from diskstream import EntryID
from diskstream.backups import Repository, Seen, Settings, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.engine.files import Files, NewFile
from tests.backups.world import seen, seen_at
from tests.engine.children import hear, say
from tests.engine.forks import ended, forked
from tests.streams.layers import SMALL

_STEPS: list[tuple[type, tuple[str, ...]]] = [
    (Files, ("create", "rename", "link", "unlink", "mkdir", "rmdir", "sync_dir")),
    (NewFile, ("write", "sync")),
]


def die_at(step: int) -> None:
    """Lets this process be killed, as by `kill -9`, before its n-th change of the disk."""
    left = step

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments, **named)

        return change

    for owner, methods in _STEPS:
        for name in methods:
            setattr(owner, name, dying(getattr(owner, name)))


def _work_until(step: int, work: Callable[[], object]) -> None:
    die_at(step)
    work()


def at_each_step(work: Callable[[], object], check: Callable[[int], None]) -> int:
    """Kills the work before each of its steps in turn, and checks what it leaves. Returns how many steps there are."""
    for step in itertools.count(1):
        code = ended(forked(partial(_work_until, step, work)))
        if code == 0:
            return step - 1
        assert code == -signal.SIGKILL, code
        check(step)
    raise AssertionError


def kill_backups(store: str, target: str, options: dict[str, Any]) -> None:
    """Backups killed at each step: none counts before it is whole, and the next one is whole."""
    path, wanted = Path(target), seen_at(Path(store))

    def check(step: int) -> None:
        if not (path / "backups.json").exists():
            return
        for backup in Repository.open(path).backups()[-2:]:
            assert check_backup(backup, Seen()) == [], step
        if step % 5 == 0:  # else the next one finds what several have left
            made = make_backup(Path(store), path)
            assert seen_at(made.path) == wanted
            assert Repository.open(path).unfinished() == []

    steps = at_each_step(lambda: make_backup(Path(store), path, Settings(**options)), check)
    assert not list((Path(store) / "leases").iterdir()), "a lease was left behind"
    say(steps)


def kill_restores(backup: str, target: str, wanted: str, until: str) -> None:
    """Restores killed at each step: there is nothing, and then everything. Where `wanted` is given, of that stream."""
    path, found = Path(target), find_backup(Path(backup))
    chosen = Wanted((wanted.encode(),) if wanted else (), until=EntryID(until) if until else None)
    into = (path / "store.json").exists()

    def check(step: int) -> None:
        if not (path / "store.json").exists():
            assert not path.exists(), step
        elif into:
            with diskstream.open(path, read_only=True) as store:
                assert store.exists(wanted) is (wanted.encode() in seen(store))
                if store.exists(wanted):
                    raise SystemExit(f"step {step}: the kill came after the end")
        else:
            seen_at(path)
            raise SystemExit(f"step {step}: the kill came after the end")

    def work() -> None:
        restore(found, path, chosen)

    def check_or_stop(step: int) -> None:
        try:
            check(step)
        except SystemExit:
            say(step)
            sys.exit(0)

    say(at_each_step(work, check_or_stop))


def keep_adding(path: str) -> None:
    """Adds, trims, seals and compacts until it is told to stop."""
    with diskstream.open(path, **{**SMALL, "seal": "background"}) as store:
        stream, number = store.stream("busy"), 0
        group = stream.group("g", start="0")
        say("ready")
        while not select.select([sys.stdin], [], [], 0)[0]:
            number += 1
            stream.add({"n": number, "pad": "." * 90}, f"{number}-0")
            group.consumer("c").read(count=1)
            if number % 400 == 0:
                stream.trim(maxlen=300)
                store.compact("busy")
        hear()
        say(number)


def back_up_short(store: str, target: str) -> None:
    """Makes a backup of a store with more streams and segments than it has descriptors; says what is damaged."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
    made = make_backup(Path(store), Path(target))
    say(len(made.streams), len(made.damaged), made.header.entries)
    backup = find_backup(Path(target))
    say(len(check_backup(backup, Seen(), deep=True)))
