"""What a read costs follows from what it asks for, not from what groups did meanwhile."""

from pathlib import Path

import diskstream
from tests.engine.sample import SMALL
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
