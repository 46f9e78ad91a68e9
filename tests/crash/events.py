"""What changes a disk, as a trace of events, and the names that files go by.

Files and directories are known by a number (`inode`), as their names come and go. Number 0 is the directory above the
store, which is always there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "ROOT",
    "Enter",
    "Event",
    "FailedFlush",
    "Flush",
    "Leave",
    "Move",
    "NameChange",
    "Names",
    "Pin",
    "SyncDir",
    "Tree",
    "Write",
]

ROOT = 0

# A directory's contents by relative path; None is a directory.
Tree = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes reached the page cache: by a system call, a mapped store, or as the zeros of an extension."""

    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Pin:
    """The write just before is durable; nothing else is promised (RWF_DSYNC)."""

    inode: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Flush:
    """All bytes of a file, and its size, are durable. Its name is not."""

    inode: int


@dataclass(frozen=True, slots=True)
class FailedFlush:
    """A flush ended with an error: of what was not durable, some pages are now, all others count as clean.

    A later flush passes over them. They are what they were in the page cache, until the machine stops; one that is
    written to again is dirty as a whole. `seed` says which pages were written. With a `size` this is about the pages of
    the write just before, as with `Pin`.
    """

    inode: int
    seed: int
    offset: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Enter:
    """A name appears in a directory: of a new file or directory, or a second one of a file."""

    directory: int
    name: str
    inode: int
    is_directory: bool = False

    @property
    def keys(self) -> tuple[tuple[int, str], ...]:
        """The names that it touches."""
        return ((self.directory, self.name),)


@dataclass(frozen=True, slots=True)
class Leave:
    """A name goes."""

    directory: int
    name: str

    @property
    def keys(self) -> tuple[tuple[int, str], ...]:
        """The names that it touches."""
        return ((self.directory, self.name),)


@dataclass(frozen=True, slots=True)
class Move:
    """A file or directory gets another name, in one step; what had that name loses it."""

    source: int
    source_name: str
    target: int
    target_name: str

    @property
    def keys(self) -> tuple[tuple[int, str], ...]:
        """The names that it touches."""
        return ((self.source, self.source_name), (self.target, self.target_name))


@dataclass(frozen=True, slots=True)
class SyncDir:
    """All names of a directory are durable."""

    directory: int


NameChange = Enter | Leave | Move
Event = Write | Pin | Flush | FailedFlush | NameChange | SyncDir


class Names:
    """Which names there are in which directory."""

    def __init__(self) -> None:
        self.directories: dict[int, dict[str, int]] = {ROOT: {}}

    @classmethod
    def of_tree(cls, tree: Tree) -> tuple["Names", dict[int, bytes]]:
        """The names of what is there already, numbered from 1, and the contents of its files."""
        names, contents = cls(), dict[int, bytes]()
        for number, (path, data) in enumerate(sorted(tree.items()), 1):
            above, _, name = path.rpartition("/")
            directory = names.find(above)
            assert directory is not None, path
            names.apply(Enter(directory, name, number, is_directory=data is None))
            if data is not None:
                contents[number] = data
        return names, contents

    def copy(self) -> "Names":
        """A copy that goes its own way."""
        other = Names()
        other.directories = {inode: dict(names) for inode, names in self.directories.items()}
        return other

    def apply(self, change: NameChange) -> None:
        """Makes a change."""
        match change:
            case Enter(directory, name, inode, is_directory):
                # The directory's own name may be lost, or not be durable yet.
                self.directories.setdefault(directory, {})[name] = inode
                if is_directory:
                    self.directories.setdefault(inode, {})
            case Leave(directory, name):
                self.directories[directory].pop(name, None)
            case Move(source, source_name, target, target_name):
                inode = self.directories[source].pop(source_name)
                self.directories.setdefault(target, {})[target_name] = inode

    def find(self, path: str) -> int | None:
        """The number of what has a path; None where nothing has."""
        inode = ROOT
        for name in path.split("/") if path else ():
            if inode not in self.directories or name not in self.directories[inode]:
                return None
            inode = self.directories[inode][name]
        return inode

    def walk(self, inode: int = ROOT, above: str = "") -> Iterator[tuple[str, int]]:
        """Everything that can be reached, as path and number, directories before what is in them."""
        for name, child in self.directories[inode].items():
            path = f"{above}{name}"
            yield path, child
            if child in self.directories:
                yield from self.walk(child, f"{path}/")
