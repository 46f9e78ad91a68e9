"""docs/archiving.md: its commands run as they are written, its numbers are those of the code, its links exist."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from diskstream import _native
from diskstream.archiving import archiver, entries, leasing, stream_copy, trimming
from diskstream.archiving.restoring import GIVEN_BACK, RESTORING_PREFIX
from tests.archiving.world import ROOT
from tests.conftest import _start_redis, _stop

PAGE = (ROOT / "docs" / "archiving.md").read_text(encoding="utf-8")
FORMAT = (ROOT / "docs" / "format" / "checkpoints.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        pytest.skip("needs redis-server and redis-cli")
    program = tmp_path / "bin" / "diskstream"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom diskstream.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    (tmp_path / "redis").mkdir()
    process, port = _start_redis("redis-server", tmp_path / "redis", {"save": ""})
    printed: dict[str, str] = {}
    try:
        commands = re.findall(r"^\$ (.*)$", PAGE, flags=re.MULTILINE)
        assert len(commands) > 10
        for command in commands:
            done = subprocess.run(
                command.replace("6379", str(port)),
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            printed[command] = done.stdout
    finally:
        _stop(process)
    assert printed["redis-cli -p 6379 XLEN orders:1"] == "2\n"
    assert printed["redis-cli -p 6379 XLEN orders:2"] == "0\n"


@pytest.mark.parametrize(
    "words",
    [
        f"window of {stream_copy._WINDOW_ENTRIES:,} entries, {stream_copy._WINDOW_BYTES >> 20} MiB or ",
        f" MiB or {stream_copy._WINDOW_S:.0f} seconds: the copy is flushed",
        f"{trimming.STEP_ENTRIES:,} entries at a time, by a script",
        f"so that it has about {entries._REPLY_BYTES >> 20} MiB",
        f"handed over in frames of {entries._FRAME_BYTES >> 20} MiB",
        f"`{leasing.LEASE_PREFIX.decode()}<key>`",
        f"after {leasing._LEASE_MS // 1000} seconds unless it is renewed",
        f"`{RESTORING_PREFIX.decode()}<key>`",
        f"a consumer `{GIVEN_BACK.decode()}`",
        f"up to {archiver._MOST_WAITED_FOR} are woken at once",
        f"{_native.MAX_ENTRY_BYTES >> 20} MiB, 65,536 fields",
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(PAGE.split())


def test_the_page_of_the_format_has_every_member(tmp_path: Path) -> None:
    import diskstream
    from diskstream.archiving.marks import Mark, load, save
    from diskstream.checkpoints import _MAX_BYTES, Checkpoints

    with diskstream.open(tmp_path / "store") as store:
        checkpoints = Checkpoints(store)
        mark = Mark(b"\xff name", "redis://here", 3, ("abc",))
        save(checkpoints, mark)
        assert load(checkpoints, b"\xff name") == mark
        facts = checkpoints.read(b"\xff name")
    assert facts is not None
    assert re.findall(r"^\| (\w+) \|", FORMAT, flags=re.MULTILINE)[1:] == list(facts)
    assert f"{_MAX_BYTES:,} bytes" in FORMAT


@pytest.mark.parametrize("page", ["archiving.md", "format/checkpoints.md", "architecture-operations.md"])
def test_every_page_that_is_linked_to_exists(page: str) -> None:
    path = ROOT / "docs" / page
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []
