"""Streams of a store that are whole under hidden names take their own: all of them, or none where one cannot."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from diskstream.backups.repository import BackupError
from diskstream.errors import DiskstreamError
from diskstream.store import Store

__all__ = ["take_names"]


def take_names(store: Store, hidden: Mapping[bytes, bytes]) -> None:
    """Renames streams.

    One that has its name when a later one fails is removed again, unless somebody has changed it since: then it stays,
    with what is theirs. Whoever is killed in between leaves those that had their names.

    Args:
        store: theirs.
        hidden: for each name the one that the stream has now, which begins as no other's does.

    Raises:
        BackupError: some have their names and others do not: they were changed since, or could not be removed.
        DiskstreamError: one could not be renamed, and none has its name.
    """
    made = {name: store.stream(unfinished)._use(_state, None) for name, unfinished in hidden.items()}
    try:
        for name, unfinished in hidden.items():
            store.rename(unfinished, name, replace=False)
    except BaseException as error:
        stay = [name for name, unfinished in hidden.items() if not _is_removed(store, name, unfinished, made[name])]
        if stay:
            names = ", ".join(name.decode("utf-8", "backslashreplace") for name in stay)
            way_out = "remove what is there (diskstream rm) to restore all together, or restore the others"
            what = f"{names} stayed, and the others could not follow ({error})"
            raise BackupError(store.path, what, way_out) from error
        raise


def _is_removed(store: Store, name: bytes, unfinished: bytes, state: object) -> bool:
    """Removes a stream that was named, if it is as it was: asked where nobody can change it any more."""
    try:
        if store.exists(unfinished):
            return True  # it was not named; whoever has the name was there before
        return store._delete(name, partial(_is_still, state)) or not store.exists(name)
    except DiskstreamError:
        return False


def _is_still(state: object, log: Any) -> bool:
    return _state(log) == state


def _state(log: Any) -> object:
    """Which stream it is, what was ever added to it or removed, and its groups; of a log that is up to date."""
    return log.native.uuid, log.native.counters(), log.native.groups()
