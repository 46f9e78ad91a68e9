"""The files are what docs/format/ says: a slow reader written from those pages alone, and the native one, agree.

Each test makes a store by some history, closes it, and reads the same files twice. Damage must mean the same to both.
"""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import diskstream
from diskstream import Stream
from tests.read_twice import fill, opened, same
from tests.slow_reader import FormatError, NewerError, RottenError, SlowStore, layouts
from tests.slow_reader.log import Frame, Log
from tests.slow_reader.state import State
from tests.slow_reader.store import directory_name
from tests.slow_reader.wire import crc32c

MAX = 2**64 - 1
PAIRS: list[list[tuple[bytes, bytes]]] = [
    [(b"sensor-id", b"1234"), (b"temperature", b"19.8")],
    [(b"a", b"1"), (b"a", b"2"), (b"b", b""), (b"a", b"1")],
    [(b"", b"")],
    [(bytes(range(256)), bytes(range(255, -1, -1)))],
    [(b"%d" % field, b"x" * field) for field in range(300)],
    [(b"big", b"0123456789" * 900)],
]

# --- histories --------------------------------------------------------------------------------------------------------


def test_a_stream_without_entries(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.stream("a").add({"k": "v"}, id=(1, 1))
        store.stream("a").delete((1, 1))
    assert len(same(tmp_path)[b"a"]) == 0


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("one_frame", [False, True])
@pytest.mark.parametrize("level", [0, 3])
def test_entries_of_every_shape(tmp_path: Path, sealed: bool, one_frame: bool, level: int) -> None:
    with opened(tmp_path, compression_level=level) as store:
        stream = store.stream("a")
        if one_frame:
            stream.add_many(PAIRS * 3)
        else:
            for pairs in PAIRS * 3:
                stream.add(pairs)
        if sealed:
            stream.seal()
    assert [pairs for _, pairs in same(tmp_path)[b"a"].entries()] == PAIRS * 3


@pytest.mark.parametrize("sealed", [False, True])
def test_ids_over_their_whole_range(tmp_path: Path, sealed: bool) -> None:
    ids = [(0, 1), (0, MAX), (1, 0), (1, MAX - 1), (1, MAX), (2**33, 2**17), (MAX, 0), (MAX, 300), (MAX, MAX)]
    with opened(tmp_path) as store:
        stream = store.stream("a")
        stream.add_many([{"k": "v"}] * 5, ids=ids[:5])
        for entry_id in ids[5:]:
            stream.add({"k": "v"}, id=entry_id)
        if sealed:
            stream.seal()
    assert [entry_id for entry_id, _ in same(tmp_path)[b"a"].entries()] == ids


def test_segments_active_rolled_and_sealed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store.stream("a"), 400)
        store.stream("a").seal()
        fill(store.stream("a"), 400, 401)
    stream = same(tmp_path)[b"a"]
    sealed = [meta for meta in stream.state.listed if stream.sealed(meta)]
    assert 2 < len(sealed) < len(stream.state.listed) - 2


def delete_runs_and_singles(stream: Stream) -> None:
    ids = [entry.id for entry in stream.range()]
    stream.delete(*ids[5:9], *ids[40:42], ids[-1], ids[-5])


def delete_every_other(stream: Stream) -> None:
    stream.delete(*[entry.id for entry in stream.range()][::2])


def delete_all_but_the_last(stream: Stream) -> None:
    stream.delete(*[entry.id for entry in stream.range()][:-1])


def trim_exactly(stream: Stream) -> None:
    for keep in (777, 500, 31, 3):
        stream.trim(maxlen=keep)


def trim_to_an_id_between_others(stream: Stream) -> None:
    stream.trim(minid=(333, 2))


def trim_and_delete(stream: Stream) -> None:
    stream.trim(maxlen=450)
    delete_every_other(stream)
    stream.trim(maxlen=200)


def set_the_counters(stream: Stream) -> None:
    stream.set_id((5000, 7), entries_added=10_000, max_deleted_id=(4000, 1))


def remove_everything(stream: Stream) -> None:
    stream.trim(maxlen=0)


CHANGES = [
    delete_runs_and_singles,
    delete_every_other,
    delete_all_but_the_last,
    trim_exactly,
    trim_to_an_id_between_others,
    trim_and_delete,
    set_the_counters,
    remove_everything,
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_over_all_segments_and_what_follows_them(tmp_path: Path, change: Callable[[Stream], None]) -> None:
    with opened(tmp_path) as store:
        stream = store.stream("a")
        fill(stream, 400)
        stream.seal()
        fill(stream, 400, 401)
        change(stream)
    same(tmp_path)
    with opened(tmp_path) as store:
        stream = store.stream("a")
        fill(stream, 300, 6001)  # rolls: the changes are in snapshots now
        stream.seal()
    same(tmp_path)
    with opened(tmp_path) as store:
        store.compact()
        delete_runs_and_singles(store.stream("a"))  # positions of compacted segments
        store.stream("a").trim(maxlen=250)
    same(tmp_path)
    with opened(tmp_path) as store:
        fill(store.stream("a"), 100, 7001)
        store.compact()
    assert any(meta.generation for meta in same(tmp_path)[b"a"].state.listed)


def test_what_is_appended_over_several_openings_under_every_policy(tmp_path: Path) -> None:
    for first, policy in enumerate(("always", "everysec", "interval=5", "os")):
        with opened(tmp_path, fsync=policy) as store:
            fill(store.stream("a"), 50, 1 + first * 50)
            store.stream("a").add({"durable": "yes"}, id=(50 + first * 50, 9), durable=True)
    stream = same(tmp_path)[b"a"]
    assert {frame.kind for frame in stream.frames} >= {layouts.SNAPSHOT, layouts.ENTRIES, layouts.MARK}
    assert stream.frames[-1].synced == stream.frames[-1].lsn - 1


NAMES = [b"race:france", b"..", b"/", b"\0", b"A", b"a", b".new-1", b"%61", b"x" * 200, b"x" * 201, b"\xff" * 4096]


def test_streams_of_every_name(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for name in [*NAMES, b"old" * 100, b"gone" * 100]:
            store.stream(name).add({"name": name})
        store.rename(b"old" * 100, b"new" * 100)
        store.delete(b"gone" * 100)
    read = same(tmp_path)
    assert sorted(read) == sorted([*NAMES, b"new" * 100])
    assert all(read[name].directory.name == directory_name(name) for name in read)


# --- what the pages promise of the files ------------------------------------------------------------------------------


def test_the_snapshot_of_a_segment_is_the_state_behind_the_one_before(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        stream = store.stream("a")
        fill(stream, 300)
        trim_and_delete(stream)
        fill(stream, 300, 1001)
        delete_every_other(stream)
        fill(stream, 300, 2001)
    slow = same(tmp_path)[b"a"]
    assert len(slow.logs) > 5
    for number, following in pairwise(sorted(slow.logs)):
        _, before = slow.rolled(number)
        after = State(slow.logs[following].path, following, slow.logs[following].snapshot)
        assert [*before.listed, *([before.active] if before.active.live() else [])] == after.listed
        for counter in ("last_id", "greatest_deleted", "entries_added", "uuid"):
            assert getattr(before, counter) == getattr(after, counter)


def test_a_sealed_segment_holds_the_first_frame_of_its_successor(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store.stream("a"), 300)
        store.stream("a").seal()
    slow = same(tmp_path)[b"a"]
    last = slow.sealed(slow.state.listed[-1])
    assert last is not None
    assert last.copy == slow.log.data[layouts.FIRST_FRAME : slow.log.snapshot.end]


def test_no_automatic_id_lies_beyond_the_frontier(tmp_path: Path) -> None:
    with opened(tmp_path, clock=lambda: 1_000_000) as store:
        store.stream("a").add({"k": "v"})
        assert SlowStore(tmp_path).stream(b"a").log.frontier >= 1_000_000
    closed = same(tmp_path)[b"a"]
    # All of it is durable now: what lies beyond the frontier stands in frames up to `synced`.
    assert (closed.log.floor, closed.log.frontier) == (0, 999_999)
    assert closed.log.synced == closed.frames[-1].lsn


def test_the_control_page_says_where_the_log_ends(tmp_path: Path) -> None:
    with opened(tmp_path, fsync="always") as store:
        fill(store.stream("a"), 150)
        slow = SlowStore(tmp_path).stream(b"a")
        page = (slow.directory / "ctl").read_bytes()
    end, lsn = slow.frames[-1].end, slow.frames[-1].lsn
    assert page[:16] == b"DSKCTL01" + bytes([1, 0, 0, 0]) + bytes(4)
    words = [int.from_bytes(page[at : at + 8], "little") for at in (256, 264, 272, 448)]
    assert words == [slow.log.segment << 40 | end] * 3 + [lsn]


def test_a_copy_of_an_open_store_is_a_store(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        fill(store.stream("a"), 100)
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
    assert len(same(tmp_path / "copy")[b"a"]) == 100


# --- damage -----------------------------------------------------------------------------------------------------------


def slow_verdict(path: Path) -> tuple[str, int]:
    """What the slow reader says of stream `a`, and how many entries it gives."""
    try:
        stream = SlowStore(path).stream(b"a")
        return "torn" if stream.torn else "clean", len(list(stream.entries()))
    except RottenError:
        return "rotten", 0
    except FormatError:
        return "refused", 0


def native_verdict(path: Path) -> tuple[str, int]:
    """What the native reader says."""
    with diskstream.open(path, read_only=True) as store:
        try:
            entries = len(list(store.stream("a").range()))
            kinds = [finding.kind for report in store.recoveries for finding in report.findings]
            return kinds[0] if kinds else "clean", entries
        except diskstream.CorruptionError:
            kinds = [finding.kind for report in store.recoveries for finding in report.findings]
            return kinds[0] if kinds else "refused", 0


def small_log(path: Path) -> Frame:
    """A store with one small log; returns its last frame."""
    with opened(path, fsync="always") as store:
        stream = store.stream("a")
        fill(stream, 8)
        stream.delete((2, 2))
        stream.trim(maxlen=6)
        group = stream.group("g", start="0")
        group.consumer("c").read(count=3)
        group.ack((4, 1))
        stream.add({"k": "v"}, producer="p", message_id="m")
        stream.add({"k": "the last"})
    return same(path)[b"a"].frames[-1]


def verdicts(path: Path, file: Path, changed: bytes) -> tuple[str, int]:
    """What both say of a file that was changed, which must be the same."""
    original = file.read_bytes()
    file.write_bytes(changed)
    try:
        found = slow_verdict(path)
        assert native_verdict(path) == found
        return found
    finally:
        file.write_bytes(original)


def test_a_flipped_bit_of_a_log_means_the_same_to_both(tmp_path: Path) -> None:
    last = small_log(tmp_path)
    data = last.path.read_bytes()
    header = [*range(64), *range(512, 544), *range(1024, 1056)]
    kinds: dict[str, int] = {}
    for at in [*header, *range(layouts.FIRST_FRAME, last.end + 64, 3)]:
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        verdict, _ = verdicts(tmp_path, last.path, bytes(changed))
        kinds[verdict] = kinds.get(verdict, 0) + 1
    # Every frame but the last one was known durable by a later one, under this policy.
    assert kinds["rotten"] > 100
    assert kinds["torn"] > 15
    assert kinds["refused"] > 64


def test_a_log_cut_anywhere_means_the_same_to_both(tmp_path: Path) -> None:
    last = small_log(tmp_path)
    data = last.path.read_bytes()
    for at in [*range(0, layouts.FIRST_FRAME, 512), *range(layouts.FIRST_FRAME, last.end + 8, 13)]:
        zeroed, _ = verdicts(tmp_path, last.path, data[:at] + bytes(len(data) - at))
        cut, _ = verdicts(tmp_path, last.path, data[:at])
        # The store was closed cleanly, and the frontier slot says how far the log was durable then.
        assert {zeroed, cut} <= ({"rotten", "refused"} if at < last.end else {"clean"})


def test_every_flipped_bit_of_a_sealed_segment_is_seen_by_both(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store.stream("a"), 40)
        store.stream("a").seal()
    file = tmp_path / "streams" / "a" / "00000001.seg"
    data = file.read_bytes()
    for at in range(0, len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        file.write_bytes(changed)
        assert slow_verdict(tmp_path) == ("refused", 0)
        with diskstream.open(tmp_path, read_only=True) as store:
            assert not store.verify().ok


# --- later versions ---------------------------------------------------------------------------------------------------


def a_frame(log: Log, before: Frame | None, kind: int, payload: bytes, flags: int = 0) -> bytes:
    """A sound frame without entries, as a later version might write it behind another or as the first."""
    lsn, chain = (1, 0) if before is None else (before.lsn + 1, before.crc)
    fields = log.salt, len(payload), kind, flags, b"\0\0", 0, lsn, 2**32 - 1, chain, 0, 0, 0, crc32c(payload)
    head = layouts.FRAME_HEADER.pack(*fields, 0)[:-4]
    return head + crc32c(head).to_bytes(4, "little") + payload + bytes(-len(payload) % 8)


def write_at(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(("kind", "flags"), [(18, 0), (layouts.MARK, 1), (layouts.GROUPS, 1), (layouts.ENTRIES, 2)])
def test_a_frame_of_a_later_version_is_refused_and_never_taken_for_a_torn_tail(
    tmp_path: Path, kind: int, flags: int
) -> None:
    last = small_log(tmp_path)
    log = SlowStore(tmp_path).stream(b"a").log
    write_at(log.path, last.end, a_frame(log, last, kind, b"", flags))
    with pytest.raises(NewerError):
        SlowStore(tmp_path).stream(b"a")


@pytest.mark.parametrize("kind", [18, layouts.MARK])
@pytest.mark.parametrize("torn", [False, True])
def test_the_head_of_a_frame_of_a_later_version_is_enough(tmp_path: Path, kind: int, torn: bool) -> None:
    """Its kind, or bytes 10 and 11, say so. What else is there of it, and what it claims, nobody knows."""
    last = small_log(tmp_path)
    log = SlowStore(tmp_path).stream(b"a").log
    head = bytearray(a_frame(log, last, kind, b"a payload that is not there")[:60])
    head[10] = int(kind == layouts.MARK)
    before = b"\xff" * 40 if torn else b""
    write_at(log.path, last.end, before + head + crc32c(bytes(head)).to_bytes(4, "little"))
    with pytest.raises(RottenError if torn else NewerError):
        SlowStore(tmp_path).stream(b"a")
    data = log.path.read_bytes()
    refusal = diskstream.CorruptionError if torn else diskstream.NewerFormatError
    with opened(tmp_path) as store, pytest.raises(refusal):
        store.stream("a").add({"k": "v"})
    assert log.path.read_bytes()[last.end :] == data[last.end :]


@pytest.mark.parametrize(
    ("records", "newer"),
    [
        (b"\x11", True),  # an unknown one
        (b"\x0a\x01\x01" + b"\x11", True),  # behind one that is known
        (b"\x0f\x01w\x01", False),  # a commit that is cut off
        (b"\x03\x63", False),  # a group that there is not
        (b"\x01\x63\x05name", False),  # cut off
    ],
)
def test_records_of_a_later_version_are_told_from_such_that_cannot_be(
    tmp_path: Path, records: bytes, newer: bool
) -> None:
    last = small_log(tmp_path)
    log = SlowStore(tmp_path).stream(b"a").log
    write_at(log.path, last.end, a_frame(log, last, layouts.GROUPS, records))
    with pytest.raises(NewerError if newer else RottenError):
        SlowStore(tmp_path).stream(b"a")
    refusal = diskstream.NewerFormatError if newer else diskstream.CorruptionError
    with diskstream.open(tmp_path, read_only=True) as store, pytest.raises(refusal):
        list(store.stream("a").range())


@pytest.mark.parametrize(("section", "refused"), [(b"\x80\x03new", False), (b"\x7f\x03new", True)])
def test_a_section_of_a_later_version_is_passed_over_only_if_its_high_bit_says_so(
    tmp_path: Path, section: bytes, refused: bool
) -> None:
    with opened(tmp_path) as store:
        store.stream("a").add({"k": "v"})
    log = SlowStore(tmp_path).stream(b"a").log
    snapshot = a_frame(log, None, layouts.SNAPSHOT, log.snapshot.payload + section)
    write_at(log.path, layouts.FIRST_FRAME, snapshot.ljust(4096, b"\0"))
    slot = layouts.FRONTIER_SLOT.pack(log.frontier_sequence + 1, 0, 0, 0, log.salt, 0)[:-4]
    claims_nothing = slot + crc32c(slot).to_bytes(4, "little")
    write_at(log.path, layouts.SLOT_OFFSETS[(log.frontier_sequence + 1) % 2], claims_nothing)
    if not refused:
        assert same(tmp_path)[b"a"].state.entries_added == 0
        return
    with pytest.raises(NewerError):
        SlowStore(tmp_path).stream(b"a")
    with opened(tmp_path) as store, pytest.raises(diskstream.NewerFormatError):
        store.stream("a").info()


@pytest.mark.parametrize("where", ["00000001.seg", "00000002.log"])
def test_a_file_of_a_later_version_is_refused(tmp_path: Path, where: str) -> None:
    with opened(tmp_path) as store:
        fill(store.stream("a"), 10)
        store.stream("a").seal()
    path = tmp_path / "streams" / "a" / where
    header = bytearray(path.read_bytes()[:64])
    header[8:12] = (layouts.FORMAT_VERSION + 1).to_bytes(4, "little")
    write_at(path, 0, bytes(header[:60]) + crc32c(bytes(header[:60])).to_bytes(4, "little"))
    with pytest.raises(NewerError):
        list(SlowStore(tmp_path).stream(b"a").entries())
    with opened(tmp_path) as store, pytest.raises(diskstream.NewerFormatError):
        list(store.stream("a").range())


@pytest.mark.parametrize(
    ("old", "new"), [('"format_version": 1', '"format_version": 2'), ('"incompatible": []', '"incompatible": ["x"]')]
)
def test_a_store_of_a_later_version_is_refused(tmp_path: Path, old: str, new: str) -> None:
    opened(tmp_path).close()
    description = tmp_path / "store.json"
    description.write_text(description.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(NewerError):
        SlowStore(tmp_path)
    with pytest.raises(diskstream.NewerFormatError):
        opened(tmp_path)
