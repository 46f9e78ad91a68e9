"""What groups did, kept by a compaction that others roll segments beside."""

from typing import Any

import pytest

from diskstream import Store
from diskstream.engine import seal
from diskstream.engine.log import StreamLog
from tests.streams.test_audit import EVERYTHING, layered, of_entries

__all__ = ["layered"]


def test_a_segment_that_is_rolled_while_a_compaction_begins_keeps_its_audit(
    layered: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was merged with its neighbours from its log, which then went with what groups had done in it."""
    stream, real = layered.stream("x"), seal.seal_rolled

    def sealed_and_then_rolled(log: StreamLog, **named: Any) -> int:
        count = real(log, **named)
        log.roll()
        return count

    with monkeypatch.context() as patched:
        patched.setattr(seal, "seal_rolled", sealed_and_then_rolled)
        report = stream.compact()
    assert report is not None
    assert (report.segments_before, report.segments_after) == (3, 2)
    assert of_entries(stream.audit()) == EVERYTHING
    stream.compact()
    assert of_entries(stream.audit()) == EVERYTHING
    layered.close()
