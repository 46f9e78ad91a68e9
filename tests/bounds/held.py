"""What a process and a store hold at a moment, counted exactly where it can be."""

import ctypes
import gc
import os
import sys
import threading
from pathlib import Path

from diskstream import Store

__all__ = ["BARS", "Held", "held", "why_not"]

Held = dict[str, int]

# What a kind of thing may grow by in a cycle, which does most operations many times. Counts are exact; but what Python
# and malloc keep at hand fills up slowly: three objects a cycle are above the bar, and seventeen times the least that
# malloc gives, a chunk of 32 bytes. On disk and in the view, 4 KiB come at a time: once in three cycles.
BARS: dict[str, float] = {
    "descriptors": 0.2,
    "threads": 0.2,
    "mappings": 0.2,
    "Python blocks": 2.5,
    "Python objects": 2.5,
    "native bytes": 512.0,
    "disk bytes": 2000.0,
    "view pages": 0.3,
}


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


def _native_bytes() -> int:
    """Bytes that malloc has given and was not given back."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallInfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def why_not() -> str:
    """Empty, or what cannot be counted here."""
    if not Path("/proc/self/maps").exists():
        return "needs /proc to count what is held"
    return "" if hasattr(ctypes.CDLL(None), "mallinfo2") else "needs the mallinfo2 of glibc"


def held(below: Path, store: Store | None) -> Held:
    """What this process holds, and what is on disk below a directory; the view of a store that is open."""
    gc.collect()
    mapped = os.fsencode(below)
    maps = Path("/proc/self/maps").read_bytes().splitlines()
    found = {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "mappings": sum(mapped in line for line in maps),
        "Python blocks": sys.getallocatedblocks(),
        "Python objects": len(gc.get_objects()),
        "native bytes": _native_bytes(),
        "disk bytes": _disk_bytes(below),
        "view pages": 0,
    }
    view = None if store is None else store._view
    if view is not None and view.exists():
        found["view pages"] = view._environment().info()["last_pgno"]
    return found


def _disk_bytes(below: Path) -> int:
    total = 0
    for folder, _, names in os.walk(below):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118  # many of them
            except FileNotFoundError:
                continue
    return total
