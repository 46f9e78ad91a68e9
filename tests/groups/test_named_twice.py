"""No frame is written that nobody could apply: an entry that it names twice would be counted out twice."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, EntryID
from diskstream.membership import locked
from tests.streams.layers import log_of

ONE, TWO = EntryID(1, 0), EntryID(2, 0)


@pytest.mark.parametrize(
    "records",
    [
        [("end", 1, [ONE, TWO, ONE])],
        [("refuse", 1, [(ONE, 1), (ONE, 1)])],
        [("assign", 1, 1, True, [(ONE, 0, 1), (ONE, 0, 1)])],
        [("end", 1, [ONE]), ("refuse", 1, [(ONE, 1)])],
    ],
)
def test_it_is_refused_and_the_stream_goes_on(tmp_path: Path, records: list[Any]) -> None:
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        stream.add_many([{"n": 1}] * 2, ids=[ONE, TWO])
        group = stream.group("g", start="0")
        group.consumer("c").read()
        with pytest.raises(ArgumentError, match="named twice"):
            locked(log_of(store), lambda log: log.pending.change(records, 0))
        assert group.ack(ONE, ONE, TWO) == 2
    with diskstream.open(tmp_path / "s") as store:
        assert store.stream("x").group("g", create=False).pending().total == 0
        assert store.verify().ok
