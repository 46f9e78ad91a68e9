"""What may happen to files: bits, blocks, and whole files that are not what they were."""

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from zlib import crc32

__all__ = ["Damage", "Foreign", "Tree", "damages", "every_byte"]

# Of so many damages, so many go through every byte; one flips a bit of any file, one is of another kind.
_TURNS, _OF_EVERY_BYTE = 6, 4

Contents = Mapping[str, bytes]

# The head of a picture: a file that somebody dropped here.
_JPEG = bytes.fromhex("ffd8ffe000104a46494600010101004800480000ffdb0043000302020302020303030304")
_BLOCK = 512
# A run of so many zeros is what fills up a file; one byte of so many of it is tried.
_FILLING, _OF_FILLING = 256, 251


class Foreign(Enum):
    """What may stand in the place of a file that is none."""

    DIRECTORY = "a directory"
    DANGLING = "a symbolic link to nothing"
    LOOP = "a symbolic link to itself"
    TO_DIRECTORY = "a symbolic link to a directory"


@dataclass(frozen=True)
class Damage:
    """Files that are something else than before.

    Attributes:
        kind: as it is counted.
        label: what exactly, to see it again.
        changed: by path; None where the file is gone.
    """

    kind: str
    label: str
    changed: dict[str, bytes | Foreign | None]


class Tree:
    """A directory whose files are put back to what they were, whatever became of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        for path in sorted(root.rglob("*")):
            relative = str(path.relative_to(root))
            if path.is_dir():
                self.folders.add(relative)
            else:
                self.files[relative] = path.read_bytes()

    def restore(self) -> None:
        """Every file and directory as it was, and no other."""
        there: set[str] = set()
        for folder, folders, files in os.walk(self.root, topdown=True):
            base = Path(folder)
            for name in list(folders):
                path = base / name
                if path.is_symlink() or str(path.relative_to(self.root)) not in self.folders:
                    path.unlink() if path.is_symlink() else shutil.rmtree(path)
                    folders.remove(name)
            for name in files:
                path = base / name
                relative = str(path.relative_to(self.root))
                before = self.files.get(relative)
                if before is None or path.is_symlink() or path.read_bytes() != before:
                    path.unlink()
                else:
                    there.add(relative)
        for relative in sorted(self.folders):
            (self.root / relative).mkdir(exist_ok=True)
        for relative in self.files.keys() - there:
            (self.root / relative).write_bytes(self.files[relative])

    def damage(self, damage: Damage) -> None:
        """Changes the files."""
        for relative, what in damage.changed.items():
            path = self.root / relative
            if isinstance(what, bytes):
                path.write_bytes(what)
                continue
            path.unlink(missing_ok=True)
            if what is Foreign.DIRECTORY:
                path.mkdir()
            elif what is Foreign.DANGLING:
                path.symlink_to(self.root / "nowhere")
            elif what is Foreign.LOOP:
                path.symlink_to(path)
            elif what is Foreign.TO_DIRECTORY:
                path.symlink_to(self.root, target_is_directory=True)


def _telling(data: bytes) -> Iterator[int]:
    """Each offset, but of long runs of zeros only some."""
    at, size = 0, len(data)
    while at < size:
        if data[at]:
            yield at
            at += 1
            continue
        end = at
        while end < size and not data[end]:
            end += 1
        yield from range(at, end) if end - at < _FILLING else (*range(at, at + 64), *range(at + 64, end, _OF_FILLING))
        at = end


def every_byte(files: Contents, paths: Sequence[str], seed: int) -> list[tuple[str, int]]:
    """Every byte of some files, in an order that a seed gives: about the same for another store of the same make."""
    places = [(path, at) for path in paths for at in _telling(files[path])]
    return sorted(places, key=lambda place: crc32(f"{seed} {place[1]} {place[0]}".encode()))


def flipped(files: Contents, path: str, at: int, bit: int) -> Damage:
    """One bit of one byte."""
    data = bytearray(files[path])
    data[at] ^= 1 << bit
    return Damage("flipped bits", f"{path}: bit {bit} of byte {at} flipped", {path: bytes(data)})


def _cut(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    data = files[path]
    to = chance.choice([0, chance.randrange(len(data) + 1), max(0, len(data) - 1), len(data) // _BLOCK * _BLOCK])
    return Damage("truncated files", f"{path}: cut to {to}", {path: data[:to]})


def _zeros(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    data = files[path]
    size = chance.choice([8, 64, _BLOCK, 4096, len(data)])
    at = 0 if size >= len(data) else chance.randrange(len(data) - size + 1)
    if size >= _BLOCK:
        at = at // _BLOCK * _BLOCK
    kind = "zeroed files" if size >= len(data) else "zeroed blocks"
    gone = data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
    return Damage(kind, f"{path}: zeros at {at}..{at + size}", {path: gone})


def _doubled(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    data = files[path]
    at = chance.randrange(len(data) + 1)
    size = chance.choice([1, 64, _BLOCK, len(data)])
    part = data[at : at + size] or data
    label = f"{path}: {len(part)} bytes of {at} stand twice"
    return Damage("duplicated parts", label, {path: data[:at] + part + data[at:]})


def _swapped_blocks(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    data = files[path]
    size = min(chance.choice([8, 64, _BLOCK, 4096]), max(1, len(data) // 2))
    first, second = (chance.randrange(max(1, len(data) // size)) * size for _ in "ab")
    first, second = sorted((first, second))
    a, b = data[first : first + size], data[second : second + size]
    moved = bytearray(data)
    moved[first : first + size] = b.ljust(size, b"\0")[: len(a)]
    moved[second : second + size] = a[: len(b)]
    label = f"{path}: blocks of {size} at {first} and {second} exchanged"
    return Damage("swapped blocks", label, {path: bytes(moved)})


def _swapped_files(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    alike = [each for each in files if each != path and Path(each).suffix == Path(path).suffix]
    other = chance.choice(alike or sorted(files))
    return Damage("swapped files", f"{path} and {other} exchanged", {path: files[other], other: files[path]})


def _copied(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    other = chance.choice(sorted(files))
    return Damage("duplicated files", f"{path} has the bytes of {other}", {path: files[other]})


def _foreign(files: Contents, path: str, chance: random.Random, others: Contents) -> Damage:
    alike = [each for each in sorted(others) if Path(each).suffix == Path(path).suffix]
    of_another = others[chance.choice(alike)] if alike else _JPEG
    if path in others and chance.random() < 0.5:
        of_another = others[path]
    what, data = chance.choice(
        [("another store's", of_another), ("a picture", _JPEG + chance.randbytes(3000)), ("empty", b"")]
    )
    return Damage("foreign files", f"{path} is {what}", {path: data})


def _gone(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    return Damage("missing files", f"{path} is gone", {path: None})


def _no_file(files: Contents, path: str, chance: random.Random, _: Contents) -> Damage:
    what = chance.choice(list(Foreign))
    return Damage("directories and links in the place of files", f"{path} is {what.value}", {path: what})


_OTHERS = (
    *(_cut, _zeros, _doubled, _swapped_blocks, _swapped_files),
    *(_copied, _foreign, _gone, _no_file),
)


def damages(
    files: Contents, paths: Sequence[str], seed: int, others: Contents, *, start: int = 0, step: int = 1
) -> Iterator[tuple[int, Damage]]:
    """Damages without end, with their numbers: four of six are flipped bits, by and by of every byte.

    Args:
        files: what there is.
        paths: which of them are damaged.
        seed: of everything.
        others: the files of another store, by path.
        start: the number to begin with.
        step: the next one is so much further.
    """
    order = every_byte(files, paths, seed)
    number = start
    while True:
        chance = random.Random(f"{seed} {number}")
        round_, turn = divmod(number, _TURNS)
        path = chance.choice(paths)
        if turn < _OF_EVERY_BYTE:
            yield number, flipped(files, *order[(round_ * _OF_EVERY_BYTE + turn) % len(order)], chance.randrange(8))
        elif turn == _OF_EVERY_BYTE and files[path]:
            # Small files would wait long for their turn: this is one of any file, whatever its size.
            yield number, flipped(files, path, chance.choice(list(_telling(files[path]))), chance.randrange(8))
        else:
            yield number, chance.choice(_OTHERS)(files, path, chance, others)
        number += step
