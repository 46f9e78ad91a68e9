"""What a read costs follows from what it asks for, not from what groups did meanwhile."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID
from diskstream._native import SegmentView
from diskstream.engine.segment import Segments
from tests.engine.sample import SMALL, log_of
from tests.slow_reader.log import Frame, Log

GROUP_FRAME = 16


def frames_of_groups(path: Path) -> list[Frame]:
    log = Log(path)
    frames, frame = [], log.next(log.snapshot)
    while frame is not None:
        frames.append(frame)
        frame = log.next(frame)
    return [frame for frame in frames if frame.kind == GROUP_FRAME]


def test_reading_entries_steps_over_no_frame_of_groups(tmp_path: Path) -> None:
    """They are made unreadable under the reader's hands: who looks at one of them cannot pass."""
    with diskstream.open(tmp_path / "s", **{**SMALL, "segment_bytes": 1 << 20}) as store:
        stream = store.stream("x")
        stream.add({"n": "1"}, "1-1")
        group = stream.group("g", start="$")
        for place in range(100):
            group.create_consumer(f"consumer {place}")
        stream.add({"n": "2"}, "2-1")
        log = tmp_path / "s/streams/x/00000001.log"
        frames = frames_of_groups(log)
        assert len(frames) > 100
        with log.open("r+b") as file:
            for frame in frames:
                file.seek(frame.offset)
                file.write(bytes(64))
        assert [str(entry.id) for entry in stream.range()] == ["1-1", "2-1"]
        assert [str(entry.id) for entry in stream.revrange()] == ["2-1", "1-1"]
        assert stream.get("2-1") is not None
        assert [str(entry.id) for entry in stream.read("1-1")] == ["2-1"]


def test_many_ids_of_a_rolled_segment_are_found_a_block_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, four thousand of them held the append lock for seconds."""
    looks: list[EntryID] = []
    whole = Segments.position_of

    def position_of(segments: Segments, view: SegmentView, entry_id: EntryID, rows: int = 1) -> Any:
        looks.append(entry_id)
        return whole(segments, view, entry_id, rows)

    with diskstream.open(tmp_path / "s", **{**SMALL, "segment_bytes": 1 << 20}) as store:
        stream = store.stream("x")
        ids = stream.add_many([{"n": str(n)} for n in range(1000)])
        log_of(store).roll()
        monkeypatch.setattr(Segments, "position_of", position_of)
        assert stream.delete(*ids[::2]) == 500
        assert 0 < len(looks) <= 1000 // 256 + 1
        assert [entry.id for entry in stream.range()] == ids[1::2]
