"""Real files, and a trace of everything that was done to them."""

import random
from collections.abc import Callable
from pathlib import Path

from diskstream._native import Ctl, LogFile
from diskstream.engine.files import Files, LogFileLike, NewFile
from tests.crash.events import (
    Enter,
    Event,
    FailedFlush,
    Flush,
    Leave,
    Move,
    NameChange,
    Names,
    Pin,
    SyncDir,
    Tree,
    Write,
)
from tests.crash.faults import Faults
from tests.crash.pages import Pages
from tests.crash.view import Image, image_of

__all__ = ["Interrupted", "Killed", "RecordedLog", "RecordedNewFile", "RecordingFiles"]


class Killed(BaseException):
    """The process is gone: nothing that the code would do now happens."""


class Interrupted(BaseException):
    """A signal handler raised this behind a call: the process lives, and goes on."""


class RecordingFiles(Files):
    """Forwards each call to real files below `root` and notes what it changes.

    Attributes:
        events: what was done, in order.
        start: what was below `root` before, all of it durable.
        ctl_images: the control pages by the number of their directory, as `note_ctl` last saw them, with the length
            of the trace then. The pages are no part of the trace, since nobody may rely on them after a restart.
        view_images: the view as `note_view` saw it, each with the length of the trace then. It is no part of the trace
            either.
        faults: what the disk refuses.
        pages: the control pages that are open.
        between: is called before each change of names: another process's turn.
        in_flush: is called behind each flush, before whoever flushed says what is durable: another process's turn.
    """

    def __init__(self, root: Path, start: Tree | None = None) -> None:
        self.root, self.start, self.faults = root, start or {}, Faults()
        self.between: Callable[[], None] | None = None
        self.in_flush: Callable[[], None] | None = None
        self.events: list[Event] = []
        self.ctl_images: list[tuple[int, dict[int, bytes]]] = []
        self.view_images: list[tuple[int, Image]] = []
        self.names, contents = Names.of_tree(self.start)
        self._sizes = {inode: len(data) for inode, data in contents.items()}
        self._next = len(self.start) + 1
        self._dead = False
        self._left: int | None = None
        self._undisturbed: int | None = None
        self._rng = random.Random(0)
        self.pages = Pages()

    @property
    def position(self) -> int:
        """How many events there are so far."""
        return len(self.events)

    # --- a killed process ---------------------------------------------------------------------------------------------

    def kill_in(self, calls: int, rng: random.Random) -> None:
        """Lets the process die in the call after the next `calls` ones; a write is then done in part."""
        self._left, self._rng = calls, rng

    def interrupt_in(self, calls: int) -> None:
        """Lets a signal come behind the call after the next `calls` ones: what that call does has happened."""
        self._undisturbed = calls

    def done(self) -> None:
        """A call has returned, and the interpreter looks for signals."""
        if self._undisturbed is None or self._dead:
            return
        self._undisturbed -= 1
        if self._undisturbed < 0:
            self._undisturbed = None
            raise Interrupted

    def spare(self) -> bool:
        """Takes `kill_in` and `interrupt_in` back. Returns whether the process is dead already."""
        self._left = self._undisturbed = None
        return self._dead

    def revive(self) -> None:
        """Another process comes: locks went with the dead one, its control pages stay as it left them.

        Whoever holds a descriptor of the dead process must have let go of it.
        """
        self.pages.bury()
        self._dead = False

    def dies(self) -> bool:
        """Whether the process dies in the call that begins now.

        Raises:
            Killed: it is dead already.
        """
        if self._dead:
            raise Killed
        if self._left is None:
            return False
        self._left -= 1
        if self._left >= 0:
            return False
        self._dead, self._left, self._undisturbed = True, None, None
        self.pages.die()
        return True

    def _begin(self, call: str, path: Path) -> None:
        if self.between is not None:
            self.between()
        if self.dies():
            raise Killed
        if error := self.faults.hit(call, path):
            raise error

    # --- what the recorded files call ---------------------------------------------------------------------------------

    def written(self, inode: int, offset: int, data: bytes) -> None:
        """Notes bytes that are in the page cache."""
        self.events.append(Write(inode, offset, bytes(data)))
        self._sizes[inode] = max(self.size_of(inode), offset + len(data))

    def size_of(self, inode: int) -> int:
        """A file's present size."""
        return self._sizes.get(inode, 0)

    def part_of(self, size: int) -> int:
        """How much of a write is done by a process that dies in it."""
        return self._rng.randint(0, size)

    # --- Files --------------------------------------------------------------------------------------------------------

    def _parts(self, path: Path) -> tuple[int, str]:
        """The directory's number and the name in it."""
        above = path.parent.relative_to(self.root).as_posix()
        directory = self.names.find("" if above == "." else above)
        assert directory is not None, path
        return directory, path.name

    def _note(self, change: NameChange) -> None:
        self.names.apply(change)
        self.events.append(change)

    def _knows(self, path: Path) -> bool:
        directory, name = self._parts(path)
        return name in self.names.directories[directory]

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
        """Opens a log file."""
        if self._dead:
            raise Killed
        file = super().open_log(path, writable=writable)
        directory, name = self._parts(path)
        return RecordedLog(self, self.names.directories[directory][name], file, path)

    def create(self, path: Path) -> NewFile:
        """Begins a file."""
        self._begin("create", path)
        new = RecordedNewFile(self, self._number(), path)
        self._note(Enter(*self._parts(path), new.inode))
        return new  # an open file is in nobody's hands yet: an interrupt behind this is one behind the first write

    def rename(self, source: Path, target: Path) -> None:
        """Gives another name."""
        self._begin("rename", target)
        super().rename(source, target)
        self._note(Move(*self._parts(source), *self._parts(target)))
        self.done()

    def link(self, source: Path, target: Path) -> None:
        """Gives a second name."""
        self._begin("link", target)
        super().link(source, target)
        directory, name = self._parts(source)
        self._note(Enter(*self._parts(target), self.names.directories[directory][name]))
        self.done()

    def unlink(self, path: Path) -> None:
        """Removes a file."""
        self._begin("unlink", path)
        known = self._knows(path)
        super().unlink(path)
        if known:
            self._note(Leave(*self._parts(path)))
        self.done()

    def mkdir(self, path: Path) -> None:
        """Makes a directory."""
        self._begin("mkdir", path)
        known = self._knows(path)
        super().mkdir(path)
        if not known:
            self._note(Enter(*self._parts(path), self._number(), is_directory=True))
        self.done()

    def rmdir(self, path: Path) -> None:
        """Removes a directory."""
        self._begin("rmdir", path)
        known = self._knows(path)
        super().rmdir(path)
        if known:
            self._note(Leave(*self._parts(path)))
        self.done()

    def sync_dir(self, path: Path) -> None:
        """Makes names durable. What lies above the root is so from the start, and no part of the trace."""
        if not path.is_relative_to(self.root):
            super().sync_dir(path)
            return
        self._begin("sync_dir", path)
        super().sync_dir(path)
        relative = path.relative_to(self.root).as_posix()
        directory = self.names.find("" if relative == "." else relative)
        assert directory is not None, path
        self.events.append(SyncDir(directory))
        self.done()

    # --- control pages ------------------------------------------------------------------------------------------------

    def open_ctl(self, path: Path) -> tuple[int, Ctl]:
        """Opens a control page, and remembers its descriptor: a process that was killed gives up its lock with it."""
        if self._dead:
            raise Killed
        descriptor, ctl = super().open_ctl(path)
        self.pages.opened(path, descriptor)
        return descriptor, ctl

    def note_ctl(self) -> None:
        """Notes what the control pages look like now: the kernel may write them back whenever it likes."""
        images = {self._parts(path)[0]: image for path, image in self.pages.images().items()}
        self.ctl_images.append((self.position, images))

    def note_view(self) -> None:
        """Notes what the view looks like now, if it is another than before."""
        image = image_of(self.root / "store")
        if image is not None and (not self.view_images or self.view_images[-1][1] != image):
            self.view_images.append((self.position, image))


class RecordedLog:
    """Stands in for a log file."""

    def __init__(self, files: RecordingFiles, inode: int, file: LogFileLike, path: Path) -> None:
        self.files, self.inode, self.file, self.path = files, inode, file, path

    def store(self, offset: int, data: bytes, /) -> None:
        """A mapped store."""
        if self.files.dies():
            part = data[: self.files.part_of(len(data))]
            self.file.store(offset, part)
            self.files.written(self.inode, offset, part)
            raise Killed
        self.file.store(offset, data)
        self.files.written(self.inode, offset, data)

    def pwrite(self, offset: int, data: bytes, /) -> None:
        """A write by system call."""
        if self.files.dies():
            part = data[: self.files.part_of(len(data))]
            self.file.pwrite(offset, part)
            self.files.written(self.inode, offset, part)
            raise Killed
        error = self.files.faults.hit("pwrite", self.path)
        if error is not None:
            data = data[: self.files.faults.part_of(len(data))]
        self.file.pwrite(offset, data)
        self.files.written(self.inode, offset, data)
        if error is not None:
            raise error

    def pwrite_sync(self, offset: int, data: bytes, /) -> None:
        """A write that is durable on return: until then it is one like any other."""
        if self.files.dies():
            raise Killed
        error = self.files.faults.hit("pwrite_sync", self.path)
        if error is not None:
            data = data[: self.files.faults.part_of(len(data))]
            self.file.pwrite(offset, data)
        else:
            self.file.pwrite_sync(offset, data)
        self.files.written(self.inode, offset, data)
        if error is not None:
            self.files.events.append(FailedFlush(self.inode, self.files.faults.seed, offset, len(data)))
            raise error
        self.files.events.append(Pin(self.inode, offset, len(data)))

    def extend(self, size_bytes: int, /) -> None:
        """Zeros from the present end on."""
        if self.files.dies():
            raise Killed
        begin = self.files.size_of(self.inode)
        error = self.files.faults.hit("extend", self.path)
        if error is not None:
            size_bytes = begin + self.files.faults.part_of(max(size_bytes - begin, 0))
        self.file.extend(size_bytes)
        if size_bytes > begin:
            self.files.written(self.inode, begin, bytes(size_bytes - begin))
        if error is not None:
            raise error

    def flush(self) -> None:
        """fdatasync."""
        if self.files.dies():
            raise Killed
        if error := self.files.faults.hit("flush", self.path):
            self.files.events.append(FailedFlush(self.inode, self.files.faults.seed))
            raise error
        self.file.flush()
        self.files.events.append(Flush(self.inode))
        if self.files.in_flush is not None:
            self.files.in_flush()

    @property
    def size_bytes(self) -> int:
        """Bytes mapped."""
        return self.file.size_bytes

    @property
    def native(self) -> LogFile:
        """The file that is read from."""
        return self.file.native

    def close(self) -> None:
        """Closes the descriptor."""
        self.file.close()


class RecordedNewFile(NewFile):
    """A file being written from its beginning."""

    def __init__(self, files: RecordingFiles, inode: int, path: Path) -> None:
        super().__init__(path)
        self.files, self.inode = files, inode

    def write(self, data: bytes) -> None:
        """Appends."""
        dies = self.files.dies()
        error = None if dies else self.files.faults.hit("write", self.path)
        part = data[: self.files.part_of(len(data))] if dies else data
        if error is not None:
            part = data[: self.files.faults.part_of(len(data))]
        super().write(part)
        self.files.written(self.inode, self.files.size_of(self.inode), part)
        if dies:
            raise Killed
        if error is not None:
            raise error
        self.files.done()

    def sync(self) -> None:
        """fsync: data and size, not the name."""
        if self.files.dies():
            raise Killed
        if error := self.files.faults.hit("sync", self.path):
            self.files.events.append(FailedFlush(self.inode, self.files.faults.seed))
            raise error
        super().sync()
        self.files.events.append(Flush(self.inode))
        self.files.done()
