"""Processes of two PID namespaces: a lock cannot tell their threads apart, so the second is refused."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream import NamespaceError
from tests.engine.children import child
from tests.engine.users import leave

OPENS = """
import sys
import diskstream
try:
    diskstream.open(sys.argv[1]).close()
except diskstream.NamespaceError as error:
    print(error)
with diskstream.open(sys.argv[1], read_only=True) as store:
    print(len(store.stream("x")))
"""
_NAMESPACE_AT = 32  # docs/format/ctl.md


def test_a_store_that_another_namespace_has_open_is_refused_until_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with child(leave, path, 3) as other:
        assert other.hear() == "left"
        with (path / "ctl").open("r+b") as page:
            page.seek(_NAMESPACE_AT)
            assert page.read(4) != bytes(4)
            page.seek(_NAMESPACE_AT)
            page.write(b"\1\0\0\0")
        with pytest.raises(NamespaceError, match="another container"):
            diskstream.open(path)
        with diskstream.open(path, read_only=True) as store:
            assert len(store.stream("x")) == 3
        other.kill()
    with diskstream.open(path) as store:
        assert len(store.stream("x")) == 3


def test_a_process_in_a_real_namespace_is_refused(tmp_path: Path) -> None:
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", OPENS, str(tmp_path / "s")]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*words[:4], "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs unshare(1), and the right to make namespaces")
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        refused, count = done.stdout.splitlines()
        assert "another PID namespace" in refused
        assert count == "1"
