"""The snapshot of a stream's first log has no copy, and needs none: a stream is made with the same one each time."""

from pathlib import Path

import pytest

import diskstream
from diskstream.copying import state_of
from diskstream.engine.layouts import LOG_HEADER
from tests.repair.test_cases import flip, folder, repair


@pytest.mark.parametrize("offset", [20, 4096 + 2, 4096 + 20, 4096 + 70], ids=["log", "salt", "frame header", "payload"])
def test_what_the_first_log_of_a_stream_begins_with_is_known(tmp_path: Path, offset: int) -> None:
    """No segment before it has a copy: what was deleted was there again, and what groups had read was not known."""
    with diskstream.open(tmp_path, seal="manual") as store:
        stream = store.stream("s")
        stream.add_many([{"n": "1"}, {"n": "2"}, {"n": "3"}], ids=["1-0", "2-0", "3-0"])
        stream.group("g", start="0").consumer("c").read(count=2)
        stream.delete("1-0")
        before = list(stream.range()), state_of(stream)
    for _ in range(2):  # also of one that a repair has made anew
        flip(folder(tmp_path) / "00000001.log", offset)
        assert repair(tmp_path).losses == []
        with diskstream.open(tmp_path) as store:
            assert (list(store.stream("s").range()), state_of(store.stream("s"))) == before


def test_what_a_repair_has_put_into_a_first_log_is_not_taken_for_what_every_stream_begins_with(tmp_path: Path) -> None:
    """Where its header says that it is another one nothing is known of it."""
    with diskstream.open(tmp_path, seal="manual") as store:
        store.stream("s").add({"n": "1"}, "1-0")
    log = folder(tmp_path) / "00000001.log"
    data = log.read_bytes()
    header = LOG_HEADER.sound(data)
    assert header is not None
    head = LOG_HEADER.make(**{**header, "created": header["created"] + 1})
    log.write_bytes(head + data[len(head) :])
    flip(log, 4096 + 70)
    assert any("the state is made from the files" in note for note in repair(tmp_path).notes)
