"""A group that moved on behind a damage without a delivery: what it may have been given before is given back."""

from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import Group
from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine.frames import Gap, walk
from diskstream.engine.layouts import FRAME_HEADER, GROUPS, LOG_HEADER

_DELIVER = 6


def set_on(group: Group) -> None:
    group.set_id("22-0")


def read_without_acknowledgement(group: Group) -> None:
    group.consumer("c").read(count=2, noack=True)


@pytest.mark.parametrize("move", [set_on, read_without_acknowledgement])
def test_what_was_delivered_in_the_lost_part_is_pending_again(tmp_path: Path, move: Callable[[Group], None]) -> None:
    """It was neither pending nor new: no consumer ever came to it, and no note said so."""
    with diskstream.open(tmp_path / "s", fsync="os", seal="manual") as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(1, 31)], ids=[(n, 0) for n in range(1, 31)])
        group = stream.group("g", start="0")
        for _ in range(2):
            group.consumer("c").read(count=10)
        move(group)
        group.consumer("c").read(count=3)
    (log,) = (tmp_path / "s" / "streams").glob("*/*.log")
    data = bytearray(log.read_bytes())
    head = LOG_HEADER.sound(bytes(data))
    assert head is not None
    places = [each for each in walk(bytes(data), head["salt"], LOG_HEADER_BYTES, 0) if not isinstance(each, Gap)]
    heads = [each.offset + FRAME_HEADER.size for each in places if each.kind == GROUPS]
    second = [at for at in heads if data[at] == _DELIVER][1]
    data[second + 4] ^= 0xFF
    log.write_bytes(data)
    (report,) = [each for each in diskstream.repair(tmp_path / "s") if each.losses]
    assert any("may have been given are pending again" in note for note in report.notes)
    with diskstream.open(tmp_path / "s") as store:
        pending = [str(row.id) for row in store.stream("x").group("g", create=False).pending_range(count=100)]
        assert set(pending) >= {f"{n}-0" for n in (*range(1, 21), 23, 24, 25)}
        assert max(pending, key=lambda each: int(each.partition("-")[0])) == "25-0"
