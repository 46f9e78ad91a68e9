"""Whose the files in a stream's directory are: headers say which stream a file was written for, by its identity."""

from collections.abc import Iterator
from pathlib import Path

from diskstream.engine import names
from diskstream.engine.files import reading
from diskstream.engine.layouts import FOOTER, LOG_HEADER, SEGMENT_HEADER
from diskstream.engine.looks import children, is_file, is_folder, is_link, names_in

__all__ = ["Owner", "first_bytes", "identity_in", "is_doubtful", "owner_in", "owner_of", "owners_in"]

# Identity of the stream, number and generation of the segment.
Owner = tuple[bytes, int, int]


def first_bytes(path: Path, size_bytes: int) -> bytes:
    """The first bytes of a file; fewer where it is shorter."""
    with reading(path) as file:
        return file.read(size_bytes)


def _last_bytes(path: Path, size_bytes: int) -> bytes:
    with reading(path) as file:
        file.seek(max(path.stat().st_size - size_bytes, 0))
        return file.read(size_bytes)


def owner_of(path: Path, kind: str) -> Owner | None:
    """What the header of a file says, or the footer; None where neither is sound."""
    head = first_bytes(path, SEGMENT_HEADER.size)
    layout = LOG_HEADER if kind == "log" else SEGMENT_HEADER
    sound = layout.sound(head)
    if sound is None and layout is SEGMENT_HEADER:
        sound = FOOTER.sound(_last_bytes(path, FOOTER.size))
    if sound is None:
        return None
    return bytes(sound["uuid"]), int(sound["segment"]), int(sound.get("generation", 0))


def owners_in(directory: Path) -> dict[Path, Owner]:
    """What the files of segments in a directory say, those that say anything."""
    found = {}
    for path in sorted(directory.iterdir()):
        parsed = names.parse_file(path.name)
        if parsed is not None and is_file(path) and (owner := owner_of(path, parsed[0])) is not None:
            found[path] = owner
    return found


def identity_in(directory: Path) -> bytes | None:
    """The identity of a stream as who opens it finds it, which costs much more: that of its active log.

    None where the log does not say it, or there is none: opening the stream tells why, or knows it from elsewhere.
    """
    try:
        found = [(parsed[1], name) for name in names_in(directory) if (parsed := names.parse_file(name)) is not None]
        logs = [each for each in found if each[1].endswith(".log")]
        owner = owner_of(directory / max(logs)[1], "log") if logs else None
    except OSError:
        return None
    return None if owner is None else owner[0]


def owner_in(directory: Path, files: dict[Path, Owner], streams: Path) -> bytes | None:
    """The identity of the stream whose directory it is; None where no file says any.

    Where files are of several streams, those of streams that live in another directory were put here by mistake. Of
    the others the one with the most files is right; of two with as many, the one of which more files are what their
    names say, and else that of the active log. Files that are not what their names say, of a stream that lives in
    another directory, say nothing of this one; what lies there in the place of one of them does.

    Args:
        directory: of the stream, or what stands for it.
        files: what `owners_in` found there.
        streams: where all streams of the store are.
    """
    count = _at_home(directory, files, streams)
    if not count:
        return _exchanged(directory, files, streams)
    rightly: dict[bytes, int] = {}
    for path, owner in files.items():
        rightly[owner[0]] = rightly.get(owner[0], 0) + _is_named(path.name, owner)
    newest = max((path for path in files if path.suffix == ".log"), default=None, key=lambda path: path.name)
    active = None if newest is None else files[newest][0]
    return max(count, default=None, key=lambda identity: (count[identity], rightly[identity], identity == active))


def is_doubtful(directory: Path, files: dict[Path, Owner], streams: Path) -> bool:
    """Whether as many of the files are another stream's as are of the one that `owner_in` says.

    Then nobody can know which of the two had the name of the directory: which files were exchanged looks the same.
    """
    most = sorted(_at_home(directory, files, streams).values())[-2:]
    return len(most) > 1 and most[0] == most[1]


def _is_named(name: str, owner: Owner) -> bool:
    """Whether a file is what its name says."""
    parsed = names.parse_file(name)
    return parsed is not None and parsed[1:] == owner[1:]


def _at_home(directory: Path, files: dict[Path, Owner], streams: Path) -> dict[bytes, int]:
    """How many of the files are each stream's, without those that live elsewhere."""
    count: dict[bytes, int] = {}
    for identity, *_ in files.values():
        count[identity] = count.get(identity, 0) + 1
    if len(count) > 1:
        strange = {identity for identity in count if _lives_elsewhere(identity, directory.name, streams)}
        return {identity: each for identity, each in count.items() if identity not in strange} or count
    if not any(_is_named(path.name, owner) for path, owner in files.items()):
        return {identity: each for identity, each in count.items() if _home(identity, directory.name, streams) is None}
    return count


def _others(name: str, streams: Path) -> Iterator[tuple[Path, dict[Path, Owner]]]:
    """The other streams' directories, and what `owners_in` finds there."""
    for other in sorted(streams.iterdir()):
        if other.name != name and not other.name.startswith(".") and not is_link(other) and is_folder(other):
            yield other, owners_in(other)


def _lives_elsewhere(identity: bytes, name: str, streams: Path) -> bool:
    """Whether most of the files in another directory are a stream's, and one of them what its name says."""
    for _, held in _others(name, streams):
        own = [_is_named(path.name, owner) for path, owner in held.items() if owner[0] == identity]
        if 2 * len(own) > len(held) and any(own):
            return True
    return False


def _home(identity: bytes, name: str, streams: Path) -> Path | None:
    """The other directory in which files of a stream, and of no other one, are what their names say."""
    for other, held in _others(name, streams):
        if {owner[0] for path, owner in held.items() if _is_named(path.name, owner)} == {identity}:
            return other
    return None


def _exchanged(directory: Path, files: dict[Path, Owner], streams: Path) -> bytes | None:
    """The identity of a stream whose only files were exchanged with those of another one, from what lies in their place
    there, or in the quarantine there by now; None where nothing does.
    """
    for path, (identity, *right) in files.items():
        home = _home(identity, directory.name, streams)
        for folder in [] if home is None else [home, home / "quarantine"]:
            for other in children(folder) if is_folder(folder) and not is_link(folder) else []:
                name = other.name if folder == home else other.name.rpartition("-")[0]
                parsed = names.parse_file(name)
                if parsed is None or parsed[0] == "cold" or [*parsed[1:]] != right or not is_file(other):
                    continue
                owner = owner_of(other, parsed[0])
                if owner is not None and owner[0] != identity and _is_named(path.name, owner):
                    return owner[0]
    return None
