"""A file that is whole or not there: whatever instruction Ctrl-C comes at, and wherever a kill strikes."""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from diskstream.engine import files
from diskstream.errors import ArgumentError
from diskstream.exporting import placing

OURS = {placing.__file__, files.__file__, contextlib.__file__}


@contextlib.contextmanager
def interrupted_at(number: int, reached: Callable[[], None]) -> Iterator[None]:
    """KeyboardInterrupt at an instruction of those that make files, as a signal's handler raises it in between two."""
    left = number

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in OURS or frame.f_code.co_name == "interrupted_at":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                reached()
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_an_interrupt_at_any_instruction_leaves_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # a thousand flushes show nothing here
    number, met = 0, [0]
    while met[-1] == number:
        number += 1
        path = tmp_path / "x"
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(number, lambda: met.append(number)),
        ):
            placing.create_whole(path, lambda sink: sink.write(b"whole"), replace=False)
        assert [each.name for each in tmp_path.iterdir()] in ([], ["x"]), number
        if path.exists():
            assert path.read_bytes() == b"whole", number
            path.unlink()
    assert number > 300


KILLED_BEHIND_THE_LINK = """
import os, sys
from pathlib import Path
from diskstream.exporting import placing
Path.unlink = lambda *_, **__: os._exit(9)
placing.create_whole(Path(sys.argv[1]), lambda sink: sink.write(b"whole"), replace=False)
"""


@pytest.fixture
def with_two_names(tmp_path: Path) -> Path:
    """What a kill leaves between the name that a file gets and the one that it loses."""
    path = tmp_path / "x"
    done = subprocess.run([sys.executable, "-c", KILLED_BEHIND_THE_LINK, str(path)], check=False)
    assert done.returncode == 9
    assert (tmp_path / ".x.partial").samefile(path)
    return path


def test_a_finished_file_is_not_written_into_under_the_name_that_a_kill_left_it(with_two_names: Path) -> None:
    """The next export took the second name for what one had begun, and emptied the file under both."""
    kept = with_two_names.rename(with_two_names.with_name("monday"))
    placing.create_whole(with_two_names, lambda sink: sink.write(b"tuesday"), replace=False)
    assert (kept.read_bytes(), with_two_names.read_bytes()) == (b"whole", b"tuesday")
    assert sorted(each.name for each in with_two_names.parent.iterdir()) == ["monday", "x"]


def test_it_stays_where_one_that_would_replace_it_fails(with_two_names: Path) -> None:
    def fail(sink: Any) -> None:
        sink.write(b"half")
        raise ArgumentError("no place for it in a table")

    with pytest.raises(ArgumentError, match="no place"):
        placing.create_whole(with_two_names, fail, replace=True)
    assert with_two_names.read_bytes() == b"whole"
    placing.create_whole(with_two_names, lambda sink: sink.write(b"anew"), replace=True)
    assert with_two_names.read_bytes() == b"anew"
    assert [each.name for each in with_two_names.parent.iterdir()] == ["x"]


def test_the_second_name_is_left_to_one_that_is_between_the_two_steps(with_two_names: Path) -> None:
    beside = with_two_names.with_name(".x.partial")
    with beside.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ArgumentError, match="another export is writing"):
            placing.create_whole(with_two_names, lambda sink: sink.write(b"anew"), replace=True)
    assert beside.samefile(with_two_names)


@pytest.mark.parametrize(
    "name", ["x" * 246, "x" * 247, "x" * 255, "\u20ac" * 85], ids=["fits", "one more", "longest", "bytes"]
)
def test_a_file_may_have_the_longest_name_that_there_is(tmp_path: Path, name: str) -> None:
    """The name under which it is written first is longer, and so it was refused."""
    path = tmp_path / name
    placing.create_whole(path, lambda sink: sink.write(b"all"), replace=False)
    assert path.read_bytes() == b"all"
    assert list(tmp_path.iterdir()) == [path]
