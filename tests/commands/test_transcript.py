"""The transcript of Redis 8.x, byte for byte but for times."""

import re
import runpy
from pathlib import Path

import pytest

from diskstream.commands.caller import Caller
from tests.commands.conftest import Say

# What an XPENDING, XINFO CONSUMERS or the like says of times.
TIMES = re.compile(r":\d+ (?=:1 \*4|:1$)|(?<=idle )\d+|(?<=idle :)\d+|(?<=inactive :)\d+")


@pytest.mark.parametrize(("part", "protocol"), [(1, 2), (2, 3)])
def test_every_line_of_it(shared_dir: Path, say: Say, caller: Caller, part: int, protocol: int) -> None:
    golden = shared_dir / "reference" / "golden"
    commands = runpy.run_path(str(golden / "transcript.py"))
    lines = (golden / "redis-8.x.txt").read_text().split("=== HELLO ")[part].splitlines()[1:]
    caller.protocol, caller.may_wait = protocol, False  # its one wait finds nothing
    asked = [*commands["PREPARE"], *commands["COMMANDS"]]
    assert len(lines) == len(asked)
    for command, line in zip(asked, lines, strict=True):
        found = f"{command} -> {say(command)}"[: 600 + len(command) + 4]
        assert TIMES.sub("T", found) == TIMES.sub("T", line.strip())
