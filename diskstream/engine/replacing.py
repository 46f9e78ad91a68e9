"""A stream whose name another one takes: put aside until that one has it, and given back where it never gets it.

::

    <target>        .replaced-<target>      <source>        each line is durable before the next begins
    the old one     -                       the new one
    -               the old one             the new one     put aside
    the new one     the old one             -               renamed
    the new one     -                       -               let go: `.deleted-<hex>`, whose files are then removed

Whoever holds the store's lock and finds a stream put aside knows that whoever put it there is dead. It is settled
before its name is used for anything else, so that what was let go never comes back in the place of a later stream.
"""

import secrets
from pathlib import Path

from diskstream.engine import names
from diskstream.engine.descriptors import listing
from diskstream.engine.files import Files, wrapped
from diskstream.engine.looks import is_folder, is_there

__all__ = ["give_back", "is_aside", "let_go", "name_of", "original", "place_of", "put_aside", "settle", "settle_all"]

_ASIDE = ".replaced-"


def place_of(streams: Path, name: bytes) -> Path:
    """Where a stream's files are, or would be.

    Raises:
        StorageError: nobody can say.
    """
    place = streams / names.encode_name(name)
    if not is_folder(place) and is_folder(aside := _aside(place)):
        return place if is_folder(place) else aside  # it may have been given back between the two looks
    return place


def is_aside(place: Path) -> bool:
    """Whether what is there was put aside."""
    return place.name.startswith(_ASIDE)


def original(encoded: str) -> str:
    """The name of a stream's directory, put aside or not, as it is where it is not."""
    return encoded.removeprefix(_ASIDE)


def name_of(directory: Path) -> bytes | None:
    """The name of the stream in a directory, put aside or not; None where it is no stream's."""
    return names.decode_directory(directory, original(directory.name))


def put_aside(streams: Path, name: bytes, files: Files) -> Path:
    """Takes the name of a stream away for another one; the caller holds the store's lock. Returns where its files are.

    Raises:
        StorageError: the disk said no.
    """
    place = streams / names.encode_name(name)
    with wrapped(streams, "rename"):
        files.rename(place, _aside(place))
        files.sync_dir(streams)
    return _aside(place)


def give_back(streams: Path, name: bytes, files: Files) -> None:
    """Gives a stream that was put aside its name back, if nobody has it; the caller holds the store's lock.

    Raises:
        StorageError: the disk said no; it is still aside.
    """
    _give_back(streams / names.encode_name(name), files)


def _give_back(place: Path, files: Files) -> None:
    if is_there(_aside(place)) and not is_there(place):
        with wrapped(place.parent, "rename"):
            files.rename(_aside(place), place)
            files.sync_dir(place.parent)


def let_go(streams: Path, name: bytes, files: Files) -> Path | None:
    """What was put aside never comes back; the caller holds the store's lock, and the name is another's, durably.

    Returns where the files are that are to be removed; None where there are none.

    Raises:
        StorageError: the disk said no; it is still aside, or on the way to be removed.
    """
    return _let_go(streams / names.encode_name(name), files)


def _let_go(place: Path, files: Files) -> Path | None:
    if not is_there(_aside(place)):
        return None
    removed = place.with_name(f".deleted-{secrets.token_hex(8)}")
    with wrapped(place.parent, "rename"):
        files.rename(_aside(place), removed)
        files.sync_dir(place.parent)
    return removed


def settle(streams: Path, name: bytes, files: Files) -> Path | None:
    """Ends what somebody who died has begun with a name; the caller holds the store's lock.

    Returns where the files are that are to be removed; None where there are none.

    Raises:
        StorageError: the disk said no; it can be tried again.
    """
    return _settle(streams / names.encode_name(name), files)


def _settle(place: Path, files: Files) -> Path | None:
    if not is_there(_aside(place)):
        return None
    if is_there(place):
        with wrapped(place.parent, "rename"):
            files.sync_dir(place.parent)  # who died may not have come to that
        return _let_go(place, files)
    _give_back(place, files)
    return None


def settle_all(streams: Path, files: Files) -> None:
    """The same for every name of which something is aside. What is to be removed is then found under `.deleted-`.

    Raises:
        StorageError: the disk said no; it can be tried again.
    """
    with wrapped(streams, "list"), listing(streams) as entries:
        found = [streams / entry.name.removeprefix(_ASIDE) for entry in entries if entry.name.startswith(_ASIDE)]
    for place in found:
        _settle(place, files)


def _aside(place: Path) -> Path:
    return place.with_name(_ASIDE + place.name)
