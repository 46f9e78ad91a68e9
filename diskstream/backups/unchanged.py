"""Backups that are read as the stores that they are: before that, their files are compared with the manifest.

A log that has lost its end looks like one that was never longer, which is how a crash leaves that of a store. In a
backup nothing is torn: what is missing there was an entry, and only the manifest knows.
"""

from collections.abc import Callable, Sequence

from diskstream.backups.manifest import read_manifest
from diskstream.backups.repository import Backup, BackupError
from diskstream.store_files import digest_file
from diskstream.system_calls import wrapped

__all__ = ["WAY_OUT", "must_be_unchanged"]

WAY_OUT = "diskstream backup verify says what else is damaged; an older backup may be sound"


def must_be_unchanged(
    backup: Backup,
    streams: Sequence[bytes] = (),
    *,
    on_total: Callable[[int], None] | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> None:
    """Reads the files of streams, and refuses what is not as it was when the backup was made.

    Args:
        backup: held by `Backup.used` meanwhile.
        streams: their names; all of the backup's first database where there are none. One that is not there is none of
            its business.
        on_total: called once, with how many bytes are to be read.
        on_bytes: called with the bytes just read.

    Raises:
        BackupError: a file is missing, or is not what it was.
        CorruptionError: nobody can say, since the manifest is damaged.
        StorageError: the disk said no.
    """
    manifest = read_manifest(backup.path)
    known = [stream for stream in manifest.streams if stream.path.startswith("streams/")]
    places = {stream.path for stream in known if not streams or stream.raw_name in streams}
    listed = [kept for kept in manifest.files.values() if kept.path.rpartition("/")[0] in places]
    if on_total is not None:
        on_total(sum(kept.size_bytes for kept in listed))
    for kept in listed:
        path = backup.path / kept.path
        try:
            with wrapped(path, "read"):
                found = digest_file(path, on_bytes or (lambda _: None))
        except FileNotFoundError as error:
            raise BackupError(path, "it is missing", WAY_OUT) from error
        if (found.size_bytes, found.sha256) != (kept.size_bytes, kept.sha256):
            raise BackupError(path, f"its SHA-256 is {found.sha256}, and was {kept.sha256}", WAY_OUT)
