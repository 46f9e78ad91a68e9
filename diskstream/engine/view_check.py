"""Whether the view of a store can be read: found out in another process, since LMDB may end it on damaged pages."""

import fcntl
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

__all__ = ["ViewState", "check"]

ViewState = str  # "sound", "damaged", "in use" or "missing"

_PLACE_BYTES, _UUID_BYTES, _KEY_BYTES = 28, 16, 45
_TIMEOUT_S = 600


def check(view: Path) -> ViewState:
    """What there is to say of the view in a directory, which is not changed.

    Nobody else may begin to write to it meanwhile, so it is locked; one that somebody has open is left alone.
    """
    if not (view / "data.mdb").exists():
        return "missing"
    try:
        fd = os.open(view / "users", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        fd = -1  # nobody has it open: all who do hold a lock on that file
    try:
        if fd >= 0:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "in use"
        command = [sys.executable, "-m", "diskstream.engine.view_check", str(view)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return "sound" if done.returncode == 0 and done.stdout.strip() == b"sound" else "damaged"
    except subprocess.TimeoutExpired:
        return "damaged"
    finally:
        if fd >= 0:
            os.close(fd)


def _read(view: Path) -> bool:
    """Reads every row."""
    import lmdb  # only the process that may be ended needs it

    environment = lmdb.open(str(view), readonly=True, lock=False, readahead=False, lib_version=0)
    with environment.begin() as transaction:
        for key, value in transaction.cursor():
            if len(key) == _UUID_BYTES:
                if len(value) != _PLACE_BYTES:
                    return False
            elif len(key) != _KEY_BYTES or value[:4] != zlib.crc32(value[4:], zlib.crc32(key)).to_bytes(4, "little"):
                return False
    return True


def _place(view: Path, uuid: bytes) -> dict[str, int]:
    """Behind which frame of a stream's log its rows stand; nothing where there are none."""
    import lmdb

    environment = lmdb.open(str(view), readonly=True, lock=False, readahead=False, lib_version=0)
    with environment.begin() as transaction:
        value = transaction.get(uuid)
    if value is None or len(value) != _PLACE_BYTES:
        return {}
    lsn, end, segment, link = struct.unpack("<QQQI", value)
    return {"lsn": lsn, "end": end, "segment": segment, "link": link}


def _main(view: str, uuid: str = "") -> None:
    if uuid:
        sys.stdout.write(json.dumps(_place(Path(view), bytes.fromhex(uuid))))
    else:
        sys.stdout.write("sound" if _read(Path(view)) else "damaged")


if __name__ == "__main__":
    _main(*sys.argv[1:])
