"""What a repair of one stream would do: it is done, to links and copies. Others may go on writing to the stream."""

import shutil
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import looks
from diskstream.engine.files import Files
from diskstream.engine.frames import read_all
from diskstream.engine.locks import is_held
from diskstream.engine.repair import Repair, repair_stream
from diskstream.engine.verify import Progress, ignore
from diskstream.errors import DiskstreamError
from diskstream.options import Options

__all__ = ["plan_stream"]

# So often a stream is looked at, while files come and go under the hands of whoever looks.
_LOOKS = 5
_COME_AND_GO = "its files come and go all the time: run this again when fewer write to it"


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
