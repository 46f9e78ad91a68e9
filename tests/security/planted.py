"""What somebody who may write to a directory puts there."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import diskstream


def a_store(path: Path) -> Path:
    """A closed store with a stream ``s`` of two segments, the first of them sealed, and a group."""
    with diskstream.open(path, seal="manual", segment_bytes=8 << 10, pending_rows=1) as store:
        stream = store.stream("s")
        for number in range(150):
            stream.add({"n": number, "text": "x" * 40}, f"{number + 1}-0")
        store.seal()
        stream.group("g", start="0").consumer("ann").read(count=3)
    return path


def instead(path: Path, how: str) -> None:
    """Puts something that is no regular file in the place of one."""
    path.unlink(missing_ok=True)
    if how == "pipe":
        os.mkfifo(path)
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif how == "device":
        path.symlink_to("/dev/zero")
    else:
        assert how == "directory"
        path.mkdir()


def everything(folder: Path) -> Iterator[tuple[Path, int]]:
    """All that is in a folder, with its permissions; what links are is not asked."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            yield path, stat.S_IMODE(path.lstat().st_mode)


def image(folder: Path) -> dict[str, bytes | None]:
    """All files of a folder, and what is in them; None is a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else None
    return found
