"""Repair of a damaged store: it cannot be opened for that, so this works on its directory."""

import os
from collections.abc import Callable, Iterable, Iterator

from diskstream.arguments import check_function, items_of, path_of
from diskstream.engine import names
from diskstream.engine.directory import refuse_backup
from diskstream.engine.files import Files
from diskstream.engine.losses import Loss
from diskstream.engine.repair import Repair
from diskstream.engine.repair_store import Wishes, must_be_store, must_be_there, repair_store
from diskstream.engine.verify import ignore
from diskstream.errors import ArgumentTypeError
from diskstream.options import Options

__all__ = ["Loss", "Repair", "check_repairable", "repair"]


def check_repairable(
    path: str | os.PathLike[str], *, streams: Iterable[str | bytes] = (), known_names: Iterable[str | bytes] = ()
) -> None:
    """Whether `repair` would begin at all: to be asked before a person is.

    Args:
        path, streams, known_names: as of `repair`.

    Raises:
        NotAStoreError: nothing says that this is a store.
        NoSuchStreamError: no stream has one of these names.
        ReadOnlyError: it is a backup.
    """
    wishes = _wishes(streams, known_names)
    where = path_of(path)
    must_be_store(where)
    must_be_there(where, wishes.streams.difference(wishes.known))
    refuse_backup(where)


def _wishes(
    streams: Iterable[str | bytes], known_names: Iterable[str | bytes], uuid: str = "", *, give_up: bool = False
) -> Wishes:
    """What is wanted, checked.

    Raises:
        ArgumentError: a name, or the UUID, is none.
    """
    if not isinstance(uuid, str):
        raise ArgumentTypeError(f"uuid is text, not {uuid!r}")
    return Wishes(
        frozenset(names.as_name(name) for name in items_of("streams", streams)),
        uuid,
        tuple(names.as_name(name) for name in items_of("known_names", known_names)),
        give_up,
    )


def repair(
    path: str | os.PathLike[str],
    *,
    streams: Iterable[str | bytes] = (),
    uuid: str = "",
    known_names: Iterable[str | bytes] = (),
    give_up: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    files: Files | None = None,
) -> Iterator[Repair]:
    """Does the least that makes a damaged store open and be read, and says what is lost.

    What is touched is copied to the quarantine of its stream before, durably. A repair that was killed is finished by
    the next.

    Args:
        path: the store's directory.
        streams: names of the streams to repair; all where there are none.
        uuid: of the store, where its own cannot be read: as text.
        known_names: names that streams may have, for those whose long name is lost.
        give_up: take segments off the list whose file and stub are lost, though others of the store are in object
            storage: it may be there, too, and `diskstream cold adopt` make the stub anew.
        dry_run: change nothing, and say what would be done. Needs room for that among the temporary files.
        progress: called with entries, and bytes of files, just looked at.
        files: what to write with; for tests that stand in for a disk.

    Returns:
        One report for the store itself, where there is something to say of it, then one for each stream as it is done.
        Nothing is looked at, and nothing repaired, before the first one is asked for: go through all of them.

    Raises:
        ArgumentError: no path, no names, or no function is given where one is wanted.
        NotAStoreError: nothing says that this is a store.
        NoSuchStreamError: no stream has one of these names.
        StoreBusyError: another process has it open.
        ReadOnlyError: it is a backup.
        StorageError: the disk said no.
    """
    wishes = _wishes(streams, known_names, uuid, give_up=give_up)
    check_function("progress", progress)
    options = Options(fsync="os", seal="manual")
    return repair_store(path_of(path), files or Files(), options, wishes, progress or ignore, dry_run=dry_run)
