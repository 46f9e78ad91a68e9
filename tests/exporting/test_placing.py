"""A file that is whole or not there: whatever instruction Ctrl-C comes at."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from diskstream.engine import files
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
