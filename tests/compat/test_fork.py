"""A client survives os.fork(), whatever other threads of the parent were doing with it."""

import os
from pathlib import Path

import pytest

from tests.compat import forks
from tests.engine.children import child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")


def test_a_fork_among_commands_of_other_threads(tmp_path: Path) -> None:
    """Turns that threads of the parent had, or waited for, would never end in the child."""
    with child(forks.fork_among_commands, tmp_path / "s") as parent:
        assert parent.hear() == "command 0"
        assert parent.hear() == "transaction 0"
        assert parent.hear() == "opening 0"
        assert parent.hear() == "entries 5"
        assert parent.wait() == 0
