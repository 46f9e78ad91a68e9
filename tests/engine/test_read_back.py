"""A sealed file is read back as a whole before what it was made from goes: a disk may have taken other bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, Stream
from tests.engine.sample import SMALL, log_of, rows
from tests.engine.stand_ins import Watched

ENTRIES = 40


def sealed_twice(stream: Stream) -> None:
    """Two segments that a compaction makes one of."""
    for begun in (1, ENTRIES // 2 + 1):
        for number in range(begun, begun + ENTRIES // 2):
            stream.add({"n": str(number)}, f"{number}-0")
        log_of(stream._store, stream.name).roll()
        stream.seal()
    stream.delete(*[f"{number}-0" for number in range(2, ENTRIES, 2)])


def rolled(stream: Stream) -> None:
    for number in range(1, ENTRIES + 1):
        stream.add({"n": str(number)}, f"{number}-0")
    log_of(stream._store, stream.name).roll()


@pytest.mark.parametrize("at", [70, 300], ids=["the first node", "behind it"])
@pytest.mark.parametrize(
    ("made", "action"),
    [(rolled, lambda stream: stream.seal()), (sealed_twice, lambda stream: stream.compact())],
    ids=["sealed", "compacted"],
)
def test_what_comes_back_as_other_bytes_replaces_nothing(
    tmp_path: Path, made: Callable[[Stream], None], action: Callable[[Stream], object], at: int
) -> None:
    folder = tmp_path / "s/streams/x"
    spoilt: list[Path] = []

    def spoil(kind: str, path: Path) -> None:
        if kind == "rename" and path.suffix == ".seg" and spoilt == [folder]:
            (new,) = folder.glob("*.seg.tmp")
            data = bytearray(new.read_bytes())
            data[at] ^= 0x40
            new.write_bytes(data)
            spoilt.append(new)

    with diskstream.open(tmp_path / "s", **SMALL, files=Watched(spoil)) as store:
        stream = store.stream("x")
        made(stream)
        before, names = rows(stream), {path.name for path in folder.iterdir()}
        spoilt.append(folder)
        with pytest.raises(CorruptionError):
            action(stream)
        assert len(spoilt) > 1
        assert names <= {path.name for path in folder.iterdir()}
        assert rows(stream) == before, "read in the place of what is whole"
        action(stream)
        assert rows(stream) == before
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert rows(store.stream("x")) == before
