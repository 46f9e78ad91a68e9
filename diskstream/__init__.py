"""Redis Streams, on disk, in your own process.

::

    import diskstream

    with diskstream.open("data", fsync="everysec") as store:
        race = store.stream("race:france")
        race.add({"rider": "Castilla", "speed": "30.2"})
        for entry in race.range("-", "+", count=2):
            print(entry.id, entry["rider"])
"""

import sys

if sys.argv[:1] == ["-m"]:  # perhaps that of `python -m diskstream`, which Ctrl-C ends without a word from here on
    import diskstream_command as _command

    _command.begin()

from importlib import import_module
from typing import TYPE_CHECKING

from diskstream._native import Delivery, Entry, EntryID
from diskstream.audit import AuditRecord
from diskstream.columnar import Columns
from diskstream.commits import Commit
from diskstream.consumer import Consumer
from diskstream.digests import Digest
from diskstream.engine.recovery import Finding, RecoveryReport
from diskstream.engine.seal import CompactReport
from diskstream.engine.splits import Piece
from diskstream.errors import (
    ArchiveChangedError,
    ArchiveError,
    ArgumentError,
    ArgumentTypeError,
    ChangedError,
    ClosedError,
    CorruptionError,
    DataLossError,
    DiskFullError,
    DiskstreamError,
    FormatError,
    GroupExistsError,
    IDExhaustedError,
    IDOrderError,
    InvalidIDError,
    LimitError,
    LostObjectError,
    MissingPackageError,
    NamespaceError,
    NetworkFilesystemError,
    NewerFormatError,
    NoGroupError,
    NoSuchStreamError,
    NotAStoreError,
    PoisonedError,
    ReadOnlyError,
    RemoteError,
    StorageError,
    StoreBusyError,
    StreamExistsError,
    ZeroIDError,
)
from diskstream.group import Group
from diskstream.group_info import (
    AutoClaim,
    AutoClaimIDs,
    ConsumerInfo,
    FullConsumer,
    FullGroup,
    FullInfo,
    GroupInfo,
    PendingEntry,
    PendingSummary,
)
from diskstream.info import StreamInfo, StreamSummary
from diskstream.options import Options
from diskstream.retaining import RetentionReport
from diskstream.retention_rule import RetentionRule
from diskstream.store import Store, open  # `diskstream.open`
from diskstream.stream import Stream
from diskstream.vitals import Vitals

if TYPE_CHECKING:
    from diskstream.engine.verify import Problem, VerifyReport
    from diskstream.repairing import Loss, Repair, repair
    from diskstream.verifying import verify

    __version__: str

# What few programs ask for, and where it is: it would be a quarter of the time that each takes to start.
_ON_DEMAND = {
    "Loss": "diskstream.repairing",
    "Problem": "diskstream.engine.verify",
    "Repair": "diskstream.repairing",
    "VerifyReport": "diskstream.engine.verify",
    "repair": "diskstream.repairing",
    "verify": "diskstream.verifying",
}


if not TYPE_CHECKING:  # a checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        if name == "__version__":
            found: object = _version()
        elif name in _ON_DEMAND:
            found = getattr(import_module(_ON_DEMAND[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("diskstream")
    except PackageNotFoundError:  # run from a tree that was never installed
        return "0.0.0"


__all__ = [
    "ArchiveChangedError",
    "ArchiveError",
    "ArgumentError",
    "ArgumentTypeError",
    "AuditRecord",
    "AutoClaim",
    "AutoClaimIDs",
    "ChangedError",
    "ClosedError",
    "Columns",
    "Commit",
    "CompactReport",
    "Consumer",
    "ConsumerInfo",
    "CorruptionError",
    "DataLossError",
    "Delivery",
    "Digest",
    "DiskFullError",
    "DiskstreamError",
    "Entry",
    "EntryID",
    "Finding",
    "FormatError",
    "FullConsumer",
    "FullGroup",
    "FullInfo",
    "Group",
    "GroupExistsError",
    "GroupInfo",
    "IDExhaustedError",
    "IDOrderError",
    "InvalidIDError",
    "LimitError",
    "Loss",
    "LostObjectError",
    "MissingPackageError",
    "NamespaceError",
    "NetworkFilesystemError",
    "NewerFormatError",
    "NoGroupError",
    "NoSuchStreamError",
    "NotAStoreError",
    "Options",
    "PendingEntry",
    "PendingSummary",
    "Piece",
    "PoisonedError",
    "Problem",
    "ReadOnlyError",
    "RecoveryReport",
    "RemoteError",
    "Repair",
    "RetentionReport",
    "RetentionRule",
    "StorageError",
    "Store",
    "StoreBusyError",
    "Stream",
    "StreamExistsError",
    "StreamInfo",
    "StreamSummary",
    "VerifyReport",
    "Vitals",
    "ZeroIDError",
    "__version__",
    "open",
    "repair",
    "verify",
]
