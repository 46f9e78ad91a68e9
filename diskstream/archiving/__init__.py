"""Streams of a Redis, moved to disk: copied, read back, trimmed at the source; and put back."""

from diskstream.archiving.archiver import Archiver, ArchiveResult, check_server
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.outages import reached
from diskstream.archiving.planning import Plan, plan
from diskstream.archiving.reports import ArchiveReport, RestorePlan, RestoreReport
from diskstream.archiving.restoring import plan_restore, restore_stream
from diskstream.archiving.server import Server

__all__ = [
    "ArchiveOptions",
    "ArchiveReport",
    "ArchiveResult",
    "Archiver",
    "Plan",
    "RestorePlan",
    "RestoreReport",
    "Server",
    "check_server",
    "plan",
    "plan_restore",
    "reached",
    "restore_stream",
]
