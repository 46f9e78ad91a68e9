"""A control page of a later version: in use it is refused with a word, and made anew where nobody uses it."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream

VERSION_AT = 8
ADD = "import sys, diskstream\nwith diskstream.open(sys.argv[1]) as store:\n    store.stream('s').add({'n': 2})\n"


def make_newer(page: Path) -> None:
    with page.open("r+b") as file:
        file.seek(VERSION_AT)
        (version,) = struct.unpack("<I", file.read(4))
        file.seek(VERSION_AT)
        file.write(struct.pack("<I", version + 1))


@pytest.mark.parametrize("where", ["ctl", "streams/s/ctl"])
def test_a_page_of_a_later_version_that_others_use_is_refused(tmp_path: Path, where: str) -> None:
    """Who came waited for ever for a page that could never become one of his version."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
        make_newer(tmp_path / "store" / where)
        command = [sys.executable, "-c", ADD, str(tmp_path / "store")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"NewerFormatError: {tmp_path / 'store' / where}: the control page has format 2" in done.stderr


@pytest.mark.parametrize("where", ["ctl", "streams/s/ctl"])
def test_one_that_nobody_uses_is_made_anew(tmp_path: Path, where: str) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
    make_newer(tmp_path / "store" / where)
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 2})
        assert [entry[b"n"] for entry in store.stream("s")] == [b"1", b"2"]
