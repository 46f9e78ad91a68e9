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

from importlib.metadata import PackageNotFoundError, version

from diskstream._native import Delivery, Entry, EntryID
from diskstream.audit import AuditRecord
from diskstream.columnar import Columns
from diskstream.commits import Commit
from diskstream.consumer import Consumer
from diskstream.engine.recovery import Finding, RecoveryReport
from diskstream.engine.seal import CompactReport
from diskstream.engine.verify import Problem, VerifyReport
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
from diskstream.repairing import Loss, Repair, repair
from diskstream.retaining import RetentionReport
from diskstream.retention_rule import RetentionRule
from diskstream.store import Store, open  # `diskstream.open`
from diskstream.stream import Stream
from diskstream.verifying import verify

try:
    __version__ = version("diskstream")
except PackageNotFoundError:  # run from a tree that was never installed
    __version__ = "0.0.0"

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
    "ZeroIDError",
    "__version__",
    "open",
    "repair",
    "verify",
]
