"""Which backups may go, and removing them."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter

from diskstream.backups.repository import Backup, BackupError, Repository
from diskstream.errors import ArgumentError
from diskstream.store_files import Files
from diskstream.system_calls import is_there

__all__ = ["check_clock", "prune", "superfluous"]

_CLOCKS_APART_MS = 300_000
_MOST_MISSED = 10  # backups that should have been made since the newest, by how far apart they are


def superfluous(
    backups: Sequence[Backup],
    *,
    keep: int | None = None,
    older_than_ms: int | None = None,
    now_ms: int | None = None,
    is_whole: Callable[[Backup], bool] | None = None,
) -> list[Backup]:
    """The backups that may go: all but the newest `keep`, of these those that are older; where only one is given, that.

    Damaged ones do not count among those that are kept, nor those that lack a file or part of one, and the newest of
    the others always stays. Those of some streams count among those of the same choice only: none stands for one of the
    whole store. So do those of each directory: a store and a copy of it that was restored elsewhere have one UUID, and
    no backup of one has what the other one has got since. One of before its directory was noted may be of any: it goes
    when enough newer ones of each are there. One whose manifest cannot be read stays too: somebody should look at it.

    Args:
        backups: the oldest first.
        keep: at least 1.
        older_than_ms: milliseconds.
        now_ms: milliseconds since 1970; None for the system's clock.
        is_whole: whether a backup has all its files; None takes each to have them.

    Raises:
        ArgumentError: neither is given, or they cannot be.
    """
    if keep is None and older_than_ms is None:
        raise ArgumentError("say how many backups to keep, or how old those are that may go")
    if (keep is not None and keep < 1) or (older_than_ms is not None and older_than_ms < 0):
        raise ArgumentError("at least one backup is kept, and an age is not below zero")
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    sound: dict[tuple[str, ...], Counter[str]] = {}
    gone = []
    for backup in reversed(backups):
        header = backup.header
        if header is None:
            continue
        newer = sound.setdefault(tuple(sorted(header.patterns)), Counter())
        enough = _count(newer, header.place) >= (1 if keep is None else keep)
        if enough and (older_than_ms is None or now - header.made_ms > older_than_ms):
            gone.append(backup)
        if not header.damaged and (is_whole is None or is_whole(backup)):
            newer[header.place] += 1
    return gone[::-1]


def _count(newer: Counter[str], place: str) -> int:
    """How many newer ones there are of the same directory; where none is noted, of that which has the fewest."""
    if place:
        return newer[place]
    return newer[""] + min((count for each, count in newer.items() if each), default=0)


def check_clock(
    backups: Sequence[Backup], older_than_ms: int, *, keep: int | None = None, now_ms: int | None = None
) -> None:
    """Refuses to go by ages that the clock may be wrong about.

    One that jumped makes all backups old at once. Nothing else tells the time: those of files are by the same clock.

    Args:
        backups: some; one whose manifest cannot be read does not matter.
        older_than_ms: as of `superfluous`.
        keep: likewise; what stays because of it stays whatever the time is.
        now_ms: milliseconds since 1970; None for the system's clock.

    Raises:
        BackupError: the newest was made in the future; or, without `keep`, is older itself than those are that may go,
            and its age is many times what lies between one backup and the next.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    made = [(each.header.made_ms, each) for each in backups if each.header is not None]
    if not made:
        return
    made.sort(key=itemgetter(0))
    newest_ms, newest = made[-1]
    age_ms = now - newest_ms
    if newest_ms > now + _CLOCKS_APART_MS:
        what = "it was made in the future, by the clock of this machine, so that the age of none is known"
    elif keep is None and len(made) > 1 and age_ms > max(older_than_ms, _MOST_MISSED * _usual_gap_ms(made)):
        what = "it is the newest, and very old for how often backups were made: has the clock jumped?"
    else:
        return
    hint = "set the clock right; --keep N without --older-than goes by no clock, and --force believes the clock"
    raise BackupError(newest.path, what, hint)


def _usual_gap_ms(made: Sequence[tuple[int, Backup]]) -> float:
    """What lies between one backup and the next, mostly; the oldest come first."""
    return statistics.median(later - earlier for (earlier, _), (later, _) in pairwise(made))


def prune(
    repository: Repository, backups: Sequence[Backup], *, on_removed: Callable[[Backup], None] = lambda _: None
) -> None:
    """Removes backups, the oldest first. What they share with others stays with these.

    Args:
        repository: the directory of backups.
        backups: those that go.
        on_removed: told of each as soon as it is no backup any more.

    Raises:
        BackupError: some are being read, and stay; all others are gone. Or somebody else makes or removes backups here.
        StorageError: the disk said no; the next removal, or backup, goes on.
    """
    files = Files()
    with repository.alone():
        repository.sweep()
        busy: BackupError | None = None
        for backup in backups:
            if not is_there(backup.path):
                continue
            try:
                with backup.used(alone=True):
                    repository.remove(backup.path, files)
            except BackupError as error:  # a replay may read for days: the room that others take is needed meanwhile
                busy = busy or error
            else:
                on_removed(backup)
        if busy is not None:
            raise busy
