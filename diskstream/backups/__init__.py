"""Backups of live stores, and stores made out of them."""

from diskstream.backups.checking import Finding, Seen, check_backup, has_its_files
from diskstream.backups.made import Made, Settings
from diskstream.backups.making import make_backup
from diskstream.backups.manifest import Header, KeptStream, Manifest, read_manifest
from diskstream.backups.pruning import check_clock, prune, superfluous
from diskstream.backups.repository import Backup, BackupError, BackupRemovedError, Repository, find_backup, is_backup
from diskstream.backups.restoring import Planned, Restored, Wanted, plan, restore
from diskstream.backups.unchanged import must_be_unchanged

__all__ = [
    "Backup",
    "BackupError",
    "BackupRemovedError",
    "Finding",
    "Header",
    "KeptStream",
    "Made",
    "Manifest",
    "Planned",
    "Repository",
    "Restored",
    "Seen",
    "Settings",
    "Wanted",
    "check_backup",
    "check_clock",
    "find_backup",
    "has_its_files",
    "is_backup",
    "make_backup",
    "must_be_unchanged",
    "plan",
    "prune",
    "read_manifest",
    "restore",
    "superfluous",
]
