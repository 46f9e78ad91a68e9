"""What repairs of streams would do: they are done, to links and copies. Others may go on writing to the streams."""

import contextlib
import errno
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import looks, replacing, stream_folders
from diskstream.engine.files import Files
from diskstream.engine.frames import read_all
from diskstream.engine.held_folders import scratch_folder
from diskstream.engine.locks import is_held
from diskstream.engine.repair import Repair, repair_stream
from diskstream.engine.verify import Progress, ignore
from diskstream.errors import DiskstreamError, storage_error
from diskstream.options import Options

__all__ = ["as_ours", "plan_each", "plan_stream"]

_SCRATCH = "diskstream-plan-"
# So often a stream is looked at, while files come and go under the hands of whoever looks.
_LOOKS = 5
_COME_AND_GO = "its files come and go all the time: run this again when fewer write to it"


# Device and inode of a stream's directory, which a rename leaves as they are.
_Identity = tuple[int, int]


def plan_each(
    found: Iterable[tuple[bytes, Path]], streams: Path, options: Options, *, give_up: bool, progress: Progress
) -> Iterator[Repair]:
    """What a repair of each stream would do. One that is removed meanwhile is left out, one that is renamed followed.

    Args:
        found: names and directories.
        streams: where all streams of the store are.
        options, give_up, progress: as of `plan_stream`. What hinders a plan is its report's `failed`.
    """
    left = [(name, folder, _identity(folder)) for name, folder in found]
    for _ in range(_LOOKS):
        gone: set[_Identity] = set()
        for name, folder, identity in left:
            if identity is None:
                continue
            try:
                with scratch_folder(_SCRATCH) as place:
                    report = plan_stream(name, folder, options, place, give_up=give_up, progress=progress)
            except (DiskstreamError, OSError) as error:
                report = Repair(name, folder, failed=str(as_ours(error, folder)))
            if _identity(folder) == identity:
                yield report
            else:
                gone.add(identity)
        if not gone:
            return
        listed = [(name, replacing.place_of(streams, name)) for name in stream_folders.list_streams(streams)]
        left = [(name, folder, of) for name, folder in listed if (of := _identity(folder)) in gone]
    for name, folder, _ in left:
        yield Repair(name, folder, failed=_COME_AND_GO)


def _identity(folder: Path) -> _Identity | None:
    with contextlib.suppress(OSError):
        status = folder.stat()
        return status.st_dev, status.st_ino
    return None


def as_ours(error: DiskstreamError | OSError, folder: Path) -> DiskstreamError:
    """An error of the system as one of this project."""
    if isinstance(error, DiskstreamError):
        return error
    return storage_error(str(error.filename or folder), "read", error.errno or errno.EIO, error.strerror or str(error))


def plan_stream(
    name: bytes,
    directory: Path,
    options: Options,
    scratch: Path,
    *,
    give_up: bool = False,
    progress: Progress = ignore,
) -> Repair:
    """What a repair would do and lose: it is done below `scratch`, to links and copies. The stream is only read.

    Where others have it open, what they seal, compact or trim meanwhile looks like something that is missing. So what
    was found counts when no file has come or gone since.

    Raises:
        NewerFormatError: a later version wrote it.
        StorageError: it cannot be read, or there is no room for what would be written.
    """
    for look in range(_LOOKS):
        before = looks.names_in(directory)
        shadow = scratch / str(look) / directory.name
        try:
            report = _planned(name, directory, options, shadow, give_up=give_up, progress=progress)
        except (DiskstreamError, OSError):
            if looks.names_in(directory) == before:
                raise
            continue
        finally:
            shutil.rmtree(shadow, ignore_errors=True)
        if not _says_anything(report) or looks.names_in(directory) == before:
            return report
    return Repair(name, directory, failed=_COME_AND_GO)


def _says_anything(report: Repair) -> bool:
    return bool(report.actions or report.losses or report.notes or report.failed)


def _planned(
    name: bytes, directory: Path, options: Options, shadow: Path, *, give_up: bool, progress: Progress
) -> Repair:
    beside = is_held(directory / "ctl")
    shadow.mkdir(parents=True)
    for path in looks.children(directory):
        if not looks.is_file(path) or path.name == "ctl" or (beside and path.suffix == ".tmp"):
            continue
        if path.suffix == ".log":  # the only files that an opening writes to
            (shadow / path.name).write_bytes(_copy_of(path, beside=beside))
        else:
            (shadow / path.name).symlink_to(path)
    report = repair_stream(
        name, shadow, Files(), options, directory.parent, give_up=give_up, beside=beside, progress=progress
    )
    report.path = directory
    report.kept = []
    for loss in report.losses:
        loss.path = directory / loss.path.name
    return report


def _copy_of(log: Path, *, beside: bool) -> bytes:
    """The bytes of a log, as of one moment also where others append to it.

    Frames are written in order: a second look finds whole what is before the end that the first one saw. How far it is
    durable must not be newer than that, so this is from the first.
    """
    first, _ = read_all(log)
    if not beside:
        return first
    again, _ = read_all(log)
    end = max(len(first.rstrip(b"\0")), LOG_HEADER_BYTES)
    return first[:LOG_HEADER_BYTES] + again[LOG_HEADER_BYTES:end] + bytes(max(len(first) - end, 0))
