"""Everything that diskstream raises, in one tree.

::

    DiskstreamError
    ├── ArgumentError (ValueError)            the call asks for what cannot be
    │   ├── ArgumentTypeError (TypeError)     the wrong kind of thing
    │   ├── InvalidIDError                    no ID can be read from what was given
    │   ├── IDOrderError                      the ID is not above the last one
    │   ├── ZeroIDError                       0-0 was given
    │   ├── IDExhaustedError                  the last possible ID is taken
    │   └── LimitError                        larger than a documented limit
    ├── NoSuchStreamError (LookupError)       the stream does not exist
    ├── StreamExistsError                     the new name is taken
    ├── NoGroupError (LookupError)            the stream has no such consumer group
    ├── GroupExistsError                      it has one of that name already
    ├── ClosedError                           the store was closed before
    ├── StoreBusyError                        what must be alone with the store is not
    ├── MissingPackageError (ImportError)     an optional package is not installed, or not loaded
    ├── StorageError (OSError)                the disk or the system said no
    │   ├── DiskFullError                     no room: free some and try again
    │   ├── PoisonedError                     a write or flush failed before: reopen the store
    │   ├── ReadOnlyError                     opened or mounted for reading only
    │   ├── NetworkFilesystemError            not on a disk of this machine
    │   └── NamespaceError                    another container has it open, whose locks cannot be told from ours
    ├── FormatError                           not something this build can open
    │   ├── NotAStoreError                    a directory that holds something else
    │   └── NewerFormatError                  written by a later version
    ├── RemoteError                           a Redis or an object storage said no, or something else than it should
    │   ├── ChangedError                      it is not what it was when this work began: somebody else is at it
    │   └── LostObjectError                   what was moved to object storage is gone from there, or is something else
    ├── DataLossError                         what was to be read is gone: trimmed, deleted or replaced
    ├── ArchiveError                          an archive is not what its manifest says, or not for this
    │   └── ArchiveChangedError               another job committed to it first: run this one again
    └── CorruptionError                       bytes are not what was written: file, offset, expected, found
"""

import errno as _errno
from typing import Any

__all__ = [
    "XGROUP_NEEDS_STREAM",
    "ArchiveChangedError",
    "ArchiveError",
    "ArgumentError",
    "ArgumentTypeError",
    "ChangedError",
    "ClosedError",
    "CorruptionError",
    "DataLossError",
    "DiskFullError",
    "DiskstreamError",
    "FormatError",
    "GroupExistsError",
    "IDExhaustedError",
    "IDOrderError",
    "InvalidIDError",
    "LimitError",
    "LostObjectError",
    "MissingPackageError",
    "NamespaceError",
    "NetworkFilesystemError",
    "NewerFormatError",
    "NoGroupError",
    "NoSuchStreamError",
    "NotAStoreError",
    "PoisonedError",
    "ReadOnlyError",
    "RemoteError",
    "StorageError",
    "StoreBusyError",
    "StreamExistsError",
    "ZeroIDError",
    "needs",
    "quoted",
    "storage_error",
]


# What Redis says where a group of no stream is to be made or removed.
XGROUP_NEEDS_STREAM = (
    "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to "
    "create an empty stream automatically."
)


class DiskstreamError(Exception):
    """The root of the tree. Errors of it go from one process to another, with what they say and carry."""

    def __reduce__(self) -> tuple[Any, ...]:
        """By what it is: what its constructor takes is not kept."""
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[DiskstreamError], args: tuple[Any, ...]) -> DiskstreamError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class ArgumentError(DiskstreamError, ValueError):
    """The call asks for what cannot be."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of the wrong kind."""


class InvalidIDError(ArgumentError):
    """No ID can be read from what was given. The text is Redis's, with the value behind it."""

    def __init__(self, given: str) -> None:
        super().__init__(f"Invalid stream ID specified as stream command argument: {given}")
        self.given = given


class IDOrderError(ArgumentError):
    """The ID is not above the last one of the stream."""

    def __init__(self) -> None:
        super().__init__("The ID specified in XADD is equal or smaller than the target stream top item")


class ZeroIDError(ArgumentError):
    """``0-0`` is no ID of an entry."""

    def __init__(self) -> None:
        super().__init__("The ID specified in XADD must be greater than 0-0")


class IDExhaustedError(ArgumentError):
    """The last possible ID is taken."""

    hint = "no greater ID exists, and a last ID never falls: rename the stream, and begin it anew"

    def __init__(self) -> None:
        super().__init__("The stream has exhausted the last possible ID, unable to add more items")


class LimitError(ArgumentError):
    """Something is larger than its documented limit."""

    def __init__(self, what: str, limit: int, found: int, words: str = "Elements are too large to be stored") -> None:
        super().__init__(f"{words}: {what} of {found}, over the limit of {limit}")
        self.what, self.limit, self.found = what, limit, found


class DataLossError(DiskstreamError):
    """Entries that were to be read are gone.

    Args:
        stream: its name.
        why: what became of them.
        wanted: what was to be read.
        advice: what to do; where it is not given, what a reader of Spark's with its options can.
    """

    def __init__(self, stream: str, why: str, wanted: str, advice: str = "") -> None:
        advice = advice or (
            "read the rest with failOnDataLoss=false, or keep what is not read yet from being trimmed: by a consumer "
            "group and ref=ACKED, or by a batch's option lease"
        )
        super().__init__(f"stream {stream}: {why}, but {wanted} was to be read; {advice}")
        self.stream = stream


class RemoteError(DiskstreamError):
    """What is not on this machine's disks failed, refused, or answered wrongly.

    Attributes:
        where: its address, without a password.
        what: what was the matter.
        hint: what to do, or None.
    """

    def __init__(self, where: str, what: str, hint: str | None = None) -> None:
        super().__init__(f"{where}: {what}")
        self.where, self.what, self.hint = where, what, hint


class ChangedError(RemoteError):
    """It is not what it was when this work began."""


class LostObjectError(RemoteError):
    """An object is not there any more, or not as it was put: that is the matter of this one, not of the place."""


class NoSuchStreamError(DiskstreamError, LookupError):
    """The stream does not exist.

    Args:
        name: its name.
        why: what to do.
        words: what Redis says, where it has other words for it.
    """

    def __init__(self, name: bytes, why: str = "adding an entry creates it", *, words: str = "no such key") -> None:
        super().__init__(f"{words.removesuffix('.')}: the store has no stream {quoted(name)}; {why}")
        self.name = name


class StreamExistsError(DiskstreamError):
    """The new name of a stream is taken."""

    def __init__(self, name: bytes) -> None:
        super().__init__(f"the store already has a stream {quoted(name)}: delete it first, or pass replace=True")
        self.name = name


class NoGroupError(DiskstreamError, LookupError):
    """The stream has no such consumer group, or does not exist.

    Args:
        stream, group: their names.
        command: whose words it says, of Redis: XGROUP, XINFO or XREADGROUP; the others have the same.
        no_stream: whether there is no such stream, which XGROUP and XINFO tell apart.
    """

    def __init__(self, stream: bytes, group: bytes, command: str = "", *, no_stream: bool = False) -> None:
        key, name = _shown(stream), _shown(group)
        if command in {"XGROUP", "XINFO"}:
            words = f"NOGROUP No such consumer group {name} for key name {key}"
            if no_stream:
                needs = XGROUP_NEEDS_STREAM.removesuffix(".") if command == "XGROUP" else "no such key"
                words = f"{needs}: no stream {key}, and so no group {name}"
        else:
            words = f"NOGROUP No such key {key} or consumer group {name}"
            words += " in XREADGROUP with GROUP option" if command == "XREADGROUP" else ""
        super().__init__(f"{words}: Stream.group() makes one, unless create=False")
        self.stream, self.group = stream, group


class GroupExistsError(DiskstreamError):
    """The stream has a group of that name."""

    def __init__(self, stream: bytes, group: bytes) -> None:
        super().__init__(
            f"BUSYGROUP Consumer Group name already exists: {_shown(group)} of {_shown(stream)}; "
            "Group.set_id() moves it, Group.destroy() removes it"
        )
        self.stream, self.group = stream, group


def _shown(name: bytes) -> str:
    return f"'{name.decode('utf-8', 'backslashreplace')}'"


class ClosedError(DiskstreamError):
    """What was used is closed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is closed: open the store again")


class StoreBusyError(DiskstreamError):
    """What must be alone with the store is not.

    Attributes:
        path: the store.
        users: who has it open, as far as the system tells: process numbers, with the names of programs.
        hint: what to do.
    """

    def __init__(self, path: str, users: list[str]) -> None:
        by = ": process " + ", ".join(users) if users else ""
        super().__init__(f"{path} is in use{by}")
        self.path, self.users = path, users
        self.hint = "stop whoever has the store open (servers, consumers, another repair), then do this again"


def needs(wanted_by: str, package: str, extra: str, error: ImportError | None) -> str:
    """What is said where an optional package is not installed; or is, and the system has no room for it."""
    if error is None or isinstance(error, ModuleNotFoundError):
        return f"{wanted_by} needs {package}: pip install 'diskstream[{extra}]'"
    return f"{wanted_by} needs {package}, which cannot be loaded: {error}"


class MissingPackageError(DiskstreamError, ImportError):
    """An optional package is not installed, or cannot be loaded.

    Args:
        wanted_by: what needs it.
        package: what is to be imported: `name`, as of every ImportError.
        extra: of diskstream, with which it is installed.
        error: what the import of it raised.
    """

    def __init__(self, wanted_by: str, package: str, extra: str, error: ImportError | None = None) -> None:
        super().__init__(needs(wanted_by, package, extra, error))
        self.name = package

    def __reduce__(self) -> tuple[Any, ...]:
        """What an ImportError keeps apart goes along."""
        return _made_again, (type(self), self.args), {**self.__dict__, "name": self.name}


class StorageError(DiskstreamError, OSError):
    """A system call on a file of the store failed."""

    hint: str | None = None

    def __init__(self, path: str, action: str, code: int, text: str) -> None:
        DiskstreamError.__init__(self, code, text)
        self.errno, self.strerror, self.filename, self.action = code, text, path, action

    def __reduce__(self) -> tuple[Any, ...]:
        """What an OSError keeps apart goes along."""
        kept = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return _made_again, (type(self), self.args), {**self.__dict__, **kept}

    def __str__(self) -> str:
        return f"could not {self.action} {self.filename}: {self.strerror}"


class DiskFullError(StorageError):
    """There is no room. Nothing acknowledged is lost; the same call works once there is."""

    def __str__(self) -> str:
        return f"{super().__str__()}: free some space and try again"


class PoisonedError(StorageError):
    """A write or flush failed before, so the stream takes no more: a second flush might lie."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(path, "append to", _errno.EIO, text)

    def __str__(self) -> str:
        return f"{self.filename} takes no more writes, since {self.strerror}: close the store and open it again"


class ReadOnlyError(StorageError):
    """The store was opened, or is mounted, for reading only."""

    def __init__(
        self, path: str, action: str = "write to", why: str = "it is open for reading only", hint: str | None = None
    ) -> None:
        super().__init__(path, action, _errno.EROFS, why)
        self.hint = hint


class NetworkFilesystemError(StorageError):
    """The directory is on a network file system, whose locks and mappings cannot be trusted."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path, "open", _errno.ENOTSUP, f"{kind} is a network file system; use a local disk")


class NamespaceError(StorageError):
    """Processes of another PID namespace have it open, and its locks cannot tell their threads from ours."""

    def __init__(self, path: str) -> None:
        why = (
            "processes of another PID namespace (another container) have it open, and a lock cannot tell their threads "
            "from ours; let all of them share one (docker run --pid, shareProcessNamespace), or one of them serve the "
            "others (diskstream serve)"
        )
        super().__init__(path, "open", _errno.ENOTSUP, why)


class FormatError(DiskstreamError):
    """Not something that this build can open."""


class NotAStoreError(FormatError):
    """The path is no store, and cannot be made one.

    Attributes:
        path: as it was given.
        hint: what to do, or None.
    """

    def __init__(self, path: str, why: str, hint: str | None = None) -> None:
        super().__init__(f"{path} is not a diskstream store: {why}")
        self.path, self.hint = path, hint


# What native code finds, in its words, where the number that it gives is none of a format.
_NO_FORMATS = {
    "a frame of unknown kind": "a frame is of kind {0}",
    "snapshot section": "a snapshot has a section {0}",
    "a group record": "a frame has a record {0}",
}


def _no_format(what: str, found: object) -> str:
    """What is so where a later version is known by something else than the number of a format; "" otherwise."""
    if what == "a frame with unknown flags":  # of a frame whose flags are known, its reserved bytes are not
        if not found:
            return "bytes 10 and 11 of a frame's header, which are reserved, are not zero"
        flags = f"a frame has the flags {int(str(found)):#04x}"
        return f"{flags}, or reserved bytes (10 and 11 of its header) that are not zero" if found == 1 else flags
    return _NO_FORMATS.get(what, "").format(found)


class NewerFormatError(FormatError):
    """Written by a later version of diskstream.

    Args:
        path: the file.
        what: of it is of a later version.
        supported: the greatest format of that which this version reads.
        found: its format, or what else is not known.
        words: what is so, where no number of a format says it.
    """

    def __init__(self, path: str, what: str, supported: int, found: object, words: str = "") -> None:
        words = words or _no_format(what, found)
        rest = f"{what} has format {found}, and this version reads up to {supported}"
        if words:
            rest = f"{words}, which only a later version of diskstream understands"
        super().__init__(f"{path or 'the log'}: {rest}: upgrade")
        self.path, self.found = path, found


class ArchiveError(DiskstreamError):
    """An archive is not what its manifest says, or cannot take what is given."""


class ArchiveChangedError(ArchiveError):
    """Another job has committed to the archive meanwhile; of this one nothing is left."""

    def __init__(self, root: str, version: int) -> None:
        super().__init__(
            f"another job has committed version {version} of the archive {root} meanwhile; what this one wrote was "
            "removed: run it again"
        )
        self.root, self.version = root, version


class CorruptionError(DiskstreamError):
    """Bytes on disk are not what was written there."""

    hint = "diskstream verify lists all that is damaged, diskstream repair --dry-run says what can be kept"
    # What lists all damage of this kind: for a program, and as a command.
    listed_by = "Store.verify()", "diskstream verify"

    def __init__(self, path: str, what: str, offset: int, expected: str, found: str) -> None:
        super().__init__(
            f"{path or 'the log'}: {what} at offset {offset}: expected {expected}, found {found}; "
            f"{self.listed_by[0]} lists all that is damaged"
        )
        self.path, self.what, self.offset, self.expected, self.found = path, what, offset, expected, found


_MOUNTED = "mount it for writing, or name another place; what only looks works there: range, tail, export, verify"
_NO_MORE_OPEN = (
    "this process, or the system, may have no more files open: ulimit -n says (LimitNOFILE= in a unit of systemd)"
)
# By errno: a limit that somebody set, and where it is told.
_LIMITS = {
    _errno.EFBIG: (
        "this process, or the file system, may have no larger files: ulimit -f says (LimitFSIZE= in a unit of systemd)"
    ),
    _errno.EAGAIN: (
        "this user, or this container, may have no more threads: ulimit -u says (TasksMax= in a unit of systemd)"
    ),
    _errno.EMFILE: _NO_MORE_OPEN,
    _errno.ENFILE: _NO_MORE_OPEN,
    _errno.ENOMEM: "this process may have no more memory: ulimit -v says (LimitAS= in a unit of systemd)",
}
# What overlayfs says of a directory of a lower layer, which nobody can rename within one file system otherwise.
_IN_AN_IMAGE = "it is in a layer of a container's image: copy the store to a volume (cp -a), and open it there"
# "No space left" is said of files, too, of which a file system may have only so many.
_NO_MORE_FILES = (
    "where df shows room, there may be no more files: df -i says how many are left, quota this user's limits"
)
_NOT_PERMITTED = "be the user to whom it belongs (ls -l says who that is), or give it to this one: chown -R"


def quoted(name: bytes) -> str:
    """A name as messages have it: in quotes, and escaped where a terminal should not be shown what it holds."""
    return repr(name.decode("utf-8", "backslashreplace"))


def storage_error(path: str, action: str, code: int, text: str) -> StorageError:
    """The error for a failed system call: the kind that `code` (an errno) says."""
    if code in (_errno.ENOSPC, _errno.EDQUOT):
        full = DiskFullError(path, action, code, text)
        full.hint = _NO_MORE_FILES if action == "create" else None
        return full
    if code == _errno.EROFS:
        return ReadOnlyError(path, action, "its file system is mounted for reading only", _MOUNTED)
    if code in (_errno.EACCES, _errno.EPERM):
        return ReadOnlyError(path, action, f"this user may not ({text})", _NOT_PERMITTED)
    error = StorageError(path, action, code, text)
    error.hint = _IN_AN_IMAGE if (code, action) == (_errno.EXDEV, "rename") else _LIMITS.get(code)
    return error
