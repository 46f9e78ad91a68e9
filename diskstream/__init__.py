"""Redis Streams, on disk, in your own process.

::

    import diskstream

    with diskstream.open("data", fsync="everysec") as store:
        race = store.stream("race:france")
        race.add({"rider": "Castilla", "speed": "30.2"})
        for entry in race.range("-", "+", count=2):
            print(entry.id, entry["rider"])
"""

from importlib.metadata import PackageNotFoundError, version

from diskstream._native import Entry, EntryID
from diskstream.columnar import Columns
from diskstream.engine.recovery import Finding, RecoveryReport
from diskstream.engine.seal import CompactReport
from diskstream.engine.verify import Problem, VerifyReport
from diskstream.errors import *  # noqa: F403  # the whole tree, as listed there
from diskstream.errors import __all__ as _errors
from diskstream.options import Options
from diskstream.store import Store, open  # `diskstream.open`
from diskstream.stream import Stream, StreamInfo

try:
    __version__ = version("diskstream")
except PackageNotFoundError:  # run from a tree that was never installed
    __version__ = "0.0.0"

__all__ = [  # noqa: PLE0604  # names of errors.__all__ are strings too
    *(name for name in _errors if name != "storage_error"),
    "Columns",
    "CompactReport",
    "Entry",
    "EntryID",
    "Finding",
    "Options",
    "Problem",
    "RecoveryReport",
    "Store",
    "Stream",
    "StreamInfo",
    "VerifyReport",
    "__version__",
    "open",
]
