"""What `inspect` shows of the control page and of the view: every byte, and what they say."""

from itertools import accumulate
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.dissect import Depth, dissect_file
from diskstream.engine.hexdump import dump


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with pending entries in its view, and one reader that is waiting no more."""
    with diskstream.open(tmp_path / "store", pending_rows=4) as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(400)])
        stream.group("g", start="0").consumer("c").read(count=300)
    return tmp_path / "store"


def rows(path: Path, **depth: bool) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for row in dissect_file(path, Depth(**{"parts": False, "entries": False, **depth})):
        found.setdefault(str(row["is"]), []).append(row)
    return found


def test_the_control_page_says_where_the_log_ends(path: Path) -> None:
    found = rows(path / "streams" / "x" / "ctl")
    (page,) = found["control page"]
    (frames,) = rows(path / "streams" / "x" / "00000001.log")["frames"]
    assert page["written"] == page["visible"] == {"segment": 1, "offset": frames["end"]}
    assert (page["ready"], page["flags"], page["waiters"]) == (True, [], 0)
    assert "place" not in found
    cut = path / "streams" / "x" / "ctl"
    cut.write_bytes(cut.read_bytes()[:100])
    assert "damaged" in rows(cut)


def test_a_waiting_consumer_has_a_place_in_the_queue(path: Path) -> None:
    ctl = path / "streams" / "x" / "ctl"
    content = bytearray(ctl.read_bytes())
    content[1024 + 32 : 1024 + 64] = b"".join(
        number.to_bytes(size, "little") for number, size in ((1, 4), (7, 4), (9, 8), (0, 8), (4711, 4), (1, 4))
    )
    ctl.write_bytes(content)
    (place,) = rows(ctl)["place"]
    assert {name: place[name] for name in ("number", "state", "group", "ticket", "pid")} == {
        "number": 1,
        "state": "waiting",
        "group": 7,
        "ticket": 9,
        "pid": 4711,
    }


def test_the_view_says_where_its_rows_stand_and_which_there_are(path: Path) -> None:
    found = rows(path / "view" / "data.mdb", parts=True)
    (place,), (count,) = found["place"], found["rows"]
    assert place["sound"]
    assert place["segment"] == 1
    assert count["chunks"] == len(found["chunk"]) > 3
    assert {row["order"] for row in found["chunk"]} == {"by ID", "by consumer", "by time"}
    assert all(row["sound"] for row in found["chunk"])


def test_a_damaged_view_is_called_so(path: Path) -> None:
    view = path / "view" / "data.mdb"
    content = view.read_bytes()
    magic = bytearray(content)
    magic[4096 + 20] ^= 0xFF  # the version of the second meta page
    view.write_bytes(magic)
    assert "damaged" in rows(view)
    seen = 0
    for at in range(8192, len(content), 61):
        rotten = bytearray(content)
        rotten[at] ^= 1
        found = rows_of(view, bytes(rotten), parts=True)  # which raises nothing
        seen += "damaged" in found or not all(row["sound"] for row in found["chunk"])
    assert seen > 10


def rows_of(path: Path, content: bytes, **depth: bool) -> dict[str, list[dict[str, object]]]:
    path.write_bytes(content)
    return rows(path, **depth)


@pytest.mark.parametrize("name", ["streams/x/ctl", "view/data.mdb"])
@pytest.mark.parametrize("each_byte", [False, True])
def test_each_byte_is_shown_once_in_order(path: Path, name: str, each_byte: bool) -> None:
    content = (path / name).read_bytes()
    lines = list(dump(path / name, 0, len(content), each_byte=each_byte))
    assert b"".join(line.data for line in lines) == content
    assert [line.offset for line in lines] == [0, *accumulate(len(line.data) for line in lines)][:-1]
    assert not any("no segment's" in line.of for line in lines)
