"""Whose the files in a stream's directory are: headers say which stream a file was written for, by its identity."""

from pathlib import Path

from diskstream.engine import names
from diskstream.engine.files import reading
from diskstream.engine.layouts import FOOTER, LOG_HEADER, SEGMENT_HEADER
from diskstream.engine.looks import is_file, is_folder, is_link, names_in

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
    names say, and else that of the active log.

    Args:
        directory: of the stream, or what stands for it.
        files: what `owners_in` found there.
        streams: where all streams of the store are.
    """
    count = _at_home(directory, files, streams)
    rightly: dict[bytes, int] = {}
    for path, (identity, *which) in files.items():
        parsed = names.parse_file(path.name)
        rightly[identity] = rightly.get(identity, 0) + (parsed is not None and [*parsed[1:]] == which)
    newest = max((path for path in files if path.suffix == ".log"), default=None, key=lambda path: path.name)
    active = None if newest is None else files[newest][0]
    return max(count, default=None, key=lambda identity: (count[identity], rightly[identity], identity == active))


def is_doubtful(directory: Path, files: dict[Path, Owner], streams: Path) -> bool:
    """Whether as many of the files are another stream's as are of the one that `owner_in` says.

    Then nobody can know which of the two had the name of the directory: which files were exchanged looks the same.
    """
    most = sorted(_at_home(directory, files, streams).values())[-2:]
    return len(most) > 1 and most[0] == most[1]


def _at_home(directory: Path, files: dict[Path, Owner], streams: Path) -> dict[bytes, int]:
    """How many of the files are each stream's, without those that live elsewhere."""
    count: dict[bytes, int] = {}
    for identity, *_ in files.values():
        count[identity] = count.get(identity, 0) + 1
    if len(count) > 1:
        strange = {identity for identity in count if _lives_elsewhere(identity, directory.name, streams)}
        return {identity: each for identity, each in count.items() if identity not in strange} or count
    return count


def _lives_elsewhere(identity: bytes, name: str, streams: Path) -> bool:
    """Whether most of the files in another directory are a stream's."""
    for other in sorted(streams.iterdir()):
        if other.name == name or other.name.startswith(".") or is_link(other) or not is_folder(other):
            continue
        held = [owner[0] == identity for owner in owners_in(other).values()]
        if 2 * sum(held) > len(held):
            return True
    return False
