"""What no stream needs is noted first, and removed when that was said long enough ago; what is needed never goes."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

import diskstream
from diskstream import Store, Stream, cold_segments, leases
from diskstream.cold import adopt, bring_back, catalogue, move_out, sweep, sweeping
from diskstream.cold.catalogue import released_path
from diskstream.cold.listing import catalogued
from diskstream.cold.sweeping import now_ms
from diskstream.cold_segments import segments_of
from diskstream.errors import ArgumentError, CorruptionError, RemoteError
from diskstream.objects import Place
from diskstream.store_files import store_uuid
from tests.cold import mover
from tests.cold.s3_server import BUCKET, place_at
from tests.cold.world import ENTRIES, filled, names_in, opened, rows
from tests.engine.children import LIMIT_S, child

DAY_MS = 86_400_000


def test_what_is_needed_stays_and_the_rest_goes_in_two_steps(stream: Stream, place: str) -> None:
    report = move_out(stream, place, older_than_ms=0)
    store = stream._store
    assert sweep(store, place, older_than_ms=0).needed == len(report.segments)
    stream.trim(minid="101")
    store.seal()
    gone = sum(each.last.ms <= 100 for each in report.segments)
    plan = sweep(store, place, older_than_ms=DAY_MS, dry_run=True)
    assert (len(plan.noted), len(plan.waiting), len(plan.removed)) == (gone, 0, 0)
    first = sweep(store, place, older_than_ms=DAY_MS)
    assert (len(first.noted), len(first.waiting), len(first.removed)) == (gone, 0, 0)
    if place.startswith("file:"):  # a note that cannot be read is made anew
        note = Path(place.removeprefix("file://")) / released_path(first.noted[0].path)
        note.write_bytes(b"{")
        assert len(sweep(store, place, older_than_ms=DAY_MS).noted) == 1
    second = sweep(store, place, older_than_ms=DAY_MS)
    assert (len(second.noted), len(second.waiting), len(second.removed)) == (0, gone, 0)
    assert all(each.since_ms for each in second.waiting)
    assert len(sweep(store, place, older_than_ms=0, dry_run=True).removed) == gone
    assert len(sweep(store, place, older_than_ms=0).removed) == gone
    last = sweep(store, place, older_than_ms=0)
    assert (last.needed, last.removed) == (len(report.segments) - gone, [])
    assert rows(stream)[0][0].ms == 101
    assert store.verify(cold=True).ok


def test_what_was_noted_long_ago_goes(stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.delete("x")
    now = [now_ms()]
    monkeypatch.setattr("diskstream.cold.sweeping.now_ms", lambda: now[0])
    noted = sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).noted
    now[0] += 29 * DAY_MS
    assert not sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).removed
    now[0] -= 500 * DAY_MS  # a clock that jumps back keeps what there is
    assert not sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).removed
    now[0] += 502 * DAY_MS
    assert len(sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).removed) == len(noted)


def test_leases_and_missing_stubs_keep_their_objects(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    before = rows(stream)
    moved = len(move_out(stream, folder_place, older_than_ms=0).segments)
    store = stream._store
    lease = store.lease(["x"])
    bring_back(stream)
    assert sweep(store, folder_place, older_than_ms=0).needed == moved
    with diskstream.open(lease, read_only=True) as leased:
        assert rows(leased.stream("x")) == before
    move_out(stream, folder_place, older_than_ms=0)
    leases.release(lease)
    store.close()
    (tmp_path / "store" / "streams" / "x" / "00000003.cold").unlink()
    with opened(tmp_path / "store") as again:
        assert sweep(again, folder_place, older_than_ms=0).needed == moved


def test_nothing_goes_of_a_stream_that_misses_a_segment(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    """An earlier log is in the place of a later one: what it lists was compacted, and moved out, since."""
    store, folder = stream._store, tmp_path / "store" / "streams" / "x"
    stream.delete("1-0")
    store.close()
    (log,) = folder.glob("*.log")
    shutil.copy(log, tmp_path / "earlier")
    with opened(tmp_path / "store") as again:
        again.stream("x").compact()
        moved = len(move_out(again.stream("x"), folder_place, older_than_ms=0).segments)
    assert list(folder.glob("*.g1.cold"))
    shutil.copy(tmp_path / "earlier", log)
    with opened(tmp_path / "store") as again:
        swept = sweep(again, folder_place, older_than_ms=0)
    assert (swept.needed, swept.removed, swept.noted) == (moved, [], [])
    assert len(names_in(tmp_path / "place", ".seg")) == moved


def test_a_note_is_taken_back_where_a_stub_is_there_again(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("ctl", "view"))
    bring_back(stream)
    assert sweep(stream._store, folder_place, older_than_ms=DAY_MS).noted
    with opened(tmp_path / "copy") as store:
        assert not sweep(store, folder_place, older_than_ms=DAY_MS).waiting
    assert names_in(tmp_path / "place", ".released.json") == []


def test_other_stores_and_other_files_are_left_alone(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    with opened(tmp_path / "another") as another:
        theirs = filled(another)
        move_out(theirs, folder_place, older_than_ms=0)
        report = move_out(stream, folder_place, older_than_ms=0)
        home = (tmp_path / "place" / report.segments[0].path).parent
        (home / "notes.txt").write_text("mine")
        (home.parent / "more.seg").write_text("mine")
        stream._store.delete("x")
        swept = sweep(stream._store, folder_place, older_than_ms=0)
        assert len(swept.removed) == len(report.segments)
        assert swept.foreign == 1
        assert (home / "notes.txt").exists()
        assert (home.parent / "more.seg").exists()
        assert len(rows(theirs)) == ENTRIES


def test_nothing_goes_while_anything_is_not_known(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    report = move_out(stream, folder_place, older_than_ms=0)
    store = stream._store
    lease = store.lease(["x"])
    stream.trim(minid="101")
    store.seal()
    stub = lease / "streams" / "x" / "00000002.cold"
    stub.unlink()
    stub.write_bytes(b"damaged")
    with pytest.raises(CorruptionError):
        sweep(store, folder_place, older_than_ms=0)
    leases.release(lease)

    def during(_: int) -> None:
        with opened(tmp_path / "store") as other:
            swept = sweep(other, folder_place, older_than_ms=0)
        assert (swept.skipped, swept.removed, swept.noted) == ([b"x"], [], [])
        asked.append(1)

    asked: list[int] = []
    bring_back(stream, start="150", progress=during)
    assert asked
    assert len(names_in(tmp_path / "place", ".seg")) == len(report.segments)
    with pytest.raises(ArgumentError):
        sweep(store, folder_place, older_than_ms=-1)


def test_a_stream_that_is_being_moved_is_left_for_later_and_the_others_are_swept(
    stream: Stream, folder_place: str
) -> None:
    """The sweep ended at it: where something was always on the move, nothing was ever removed."""
    store = stream._store
    moved = {}
    for each in (stream, filled(store, "y", count=60)):
        moved[each.name] = {segment.path for segment in move_out(each, folder_place, older_than_ms=0).segments}
        bring_back(each)
    with cold_segments.opened(stream):
        swept = sweep(store, folder_place, older_than_ms=0)
    assert swept.skipped == [b"x"]
    assert {each.path for each in swept.removed} == moved[b"y"]
    swept = sweep(store, folder_place, older_than_ms=0)
    assert (swept.skipped, {each.path for each in swept.removed}) == ([], moved[b"x"])


def each_says(stream: Stream, place: str, why: str) -> None:
    for look in (
        lambda: sweep(stream._store, place, older_than_ms=0),
        lambda: adopt(stream, place),
        lambda: list(catalogued(stream._store, [stream], place, whole=True)),
    ):
        with pytest.raises(RemoteError, match=why):
            look()


def test_a_folder_that_is_not_there_is_a_mistake_and_not_an_empty_one(stream: Stream, tmp_path: Path) -> None:
    """`cold sweep`, `cold ls --at` and `cold adopt` said 0 where the URL was mistyped."""
    gone = f"file://{tmp_path}/mistyped"
    each_says(stream, gone, "there is no folder")
    assert not (tmp_path / "mistyped").exists()


def test_so_is_a_bucket(stream: Stream, s3_port: int, folder_place: str) -> None:
    """There too they said 0."""
    move_out(stream, folder_place, before="30")
    min((stream._store.path / "streams" / "x").glob("*.cold")).unlink()  # for an adoption to look for
    gone = place_at(s3_port, "place").replace(BUCKET, "mistyped")
    each_says(stream, gone, "there is no bucket mistyped")
    assert sweep(stream._store, place_at(s3_port, "new"), older_than_ms=0).needed == 0


def test_what_was_needed_meanwhile_is_noted_anew(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of the first time stayed, and the object went at once, under the backups that still rested on it."""
    now = [1_000 * DAY_MS]
    monkeypatch.setattr("diskstream.cold.sweeping.now_ms", lambda: now[0])
    move_out(stream, folder_place, older_than_ms=0)
    bring_back(stream)
    noted = sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).noted
    assert noted
    now[0] += 10 * DAY_MS
    move_out(stream, folder_place, older_than_ms=0)
    now[0] += 30 * DAY_MS
    stream._store.delete("x")
    last = sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS)
    assert (len(last.noted), last.removed) == (len(noted), [])


def test_what_is_adopted_is_noted_anew(
    stream: Stream, folder_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    store = stream._store
    stub = min((tmp_path / "store" / "streams" / "x").glob("*.cold"))
    path = next(each.stub.path for each in segments_of(stream) if each.stub is not None)
    catalogue.release(Place(folder_place), path, 0)
    store.close()
    stub.unlink()
    with opened(tmp_path / "store") as again:
        assert adopt(again.stream("x"), folder_place).adopted
    assert list((tmp_path / "place").rglob("*.released.json")) == []


def test_a_clock_that_was_behind_when_it_was_noted_makes_nothing_old(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sweep wrote 1970, and the second one, a moment later, removed what backups still rested on."""
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.delete("x")
    with monkeypatch.context() as patched:
        patched.setattr("diskstream.cold.sweeping.now_ms", lambda: 1_000 * DAY_MS)
        noted = sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS).noted
    swept = sweep(stream._store, folder_place, older_than_ms=30 * DAY_MS)
    assert (len(swept.waiting), swept.removed) == (len(noted), [])


def test_nothing_goes_by_its_age_where_the_clocks_differ(
    stream: Stream, s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(s3_port, tmp_path.name)
    report = move_out(stream, place, older_than_ms=0)
    stream._store.delete("x")
    sweep(stream._store, place, older_than_ms=30 * DAY_MS)
    monkeypatch.setattr("diskstream.cold.sweeping.now_ms", lambda: now_ms() + 31 * DAY_MS)
    with pytest.raises(RemoteError, match="nothing goes by its age"):
        sweep(stream._store, place, older_than_ms=30 * DAY_MS)
    assert len(sweep(stream._store, place, older_than_ms=0).removed) == len(report.segments)


def test_a_stream_that_is_renamed_while_names_are_listed_is_known(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its old name it was gone, under its new one not listed: what it was just moving out was nobody's."""
    report = move_out(stream, folder_place, older_than_ms=0)
    store, real = stream._store, Store._identity_unopened
    renaming = threading.Thread(target=store.rename, args=("x", "y"))

    def looked(found: Store, name: bytes) -> bytes | None:
        if not renaming.is_alive():
            renaming.start()
            renaming.join(0.2)  # it has to wait for the list: so long that it would be through
            assert renaming.is_alive()
        return real(found, name)

    monkeypatch.setattr(Store, "_identity_unopened", looked)
    try:
        swept = sweep(store, folder_place, older_than_ms=0)
    finally:
        renaming.join()
    assert swept.removed == []
    assert len(names_in(tmp_path_of(folder_place), ".seg")) == len(report.segments)


def test_streams_are_made_while_a_sweep_opens_those_that_are_there(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand that took more than ten seconds, for which everybody waited who added to a new one."""
    report = move_out(stream, folder_place, older_than_ms=0)
    path = stream._store.path
    made: list[bool] = []
    for number in range(5):
        stream._store.stream(f"other-{number}").add({"n": 1})

    def looked(found: Stream) -> bytes | None:
        if found.name.startswith(b"other") and found.name not in found._store._logs:  # it is opened for that
            making = threading.Thread(target=opened_and_added, args=(path, f"new-{len(made)}"))
            making.start()
            making.join(LIMIT_S / 8)
            made.append(not making.is_alive())
        return cold_segments.uuid_of(found)

    monkeypatch.setattr(sweeping, "uuid_of", looked)
    with diskstream.open(path, max_open_streams=1) as sweeper:
        swept = sweep(sweeper, folder_place, older_than_ms=0)
    assert len(made) >= 4
    assert all(made)
    assert swept.removed == []
    assert len(names_in(tmp_path_of(folder_place), ".seg")) == len(report.segments)


def opened_and_added(path: Path, name: str) -> None:
    """As another process does."""
    with diskstream.open(path) as store:
        store.stream(name).add({"n": 1})


def tmp_path_of(place: str) -> Path:
    """The folder of a place."""
    return Path(place.removeprefix("file://"))


def test_a_stream_that_is_made_and_moved_while_a_sweep_begins_is_known(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its object was there, its stub not yet, and the stream was none of those that had been listed before."""
    store = stream._store
    Place(folder_place).make_folder(store_uuid(store.path))
    put, go_on = threading.Event(), threading.Event()
    keep, folders = catalogue.keep, Place.folders

    def kept(place: Place, record: catalogue.Record) -> None:
        put.set()
        assert go_on.wait(30)
        keep(place, record)

    def move() -> None:
        move_out(filled(store, "z"), folder_place, older_than_ms=0)

    moving = threading.Thread(target=move)

    def listed(place: Place, folder: str) -> list[str]:
        moving.start()
        assert put.wait(30)
        return folders(place, folder)

    monkeypatch.setattr(catalogue, "keep", kept)
    monkeypatch.setattr(Place, "folders", listed)
    try:
        swept = sweep(store, folder_place, older_than_ms=0)
    finally:
        go_on.set()
        moving.join()
    assert (swept.skipped, swept.removed) == ([b"z"], [])
    assert len(rows(store.stream("z"))) == ENTRIES
    assert store.verify(cold=True).ok


def test_what_a_killed_put_left_goes_as_objects_do(tmp_path: Path, folder_place: str) -> None:
    """It was hidden, as large as a segment, and nothing ever removed it."""
    path, home = tmp_path / "store", tmp_path_of(folder_place)
    with opened(path) as store:
        filled(store, count=60)
    for putting in ("an object", "its record"):
        with child(mover.killed_putting, path, folder_place, putting) as process:
            assert process.wait() == -signal.SIGKILL

    def of_record(path: Path) -> bool:
        return path.parent.parent.name == "catalogue"

    left = sorted(home.rglob(".*.tmp"), key=of_record)  # the store's folder is named at random, before or behind it
    assert [of_record(each) for each in left] == [False, True]
    (left[0].parent / ".mine.tmp").write_text("mine")
    (left[0].parent / f".link.{'0' * 16}.tmp").symlink_to(path / "store.json")
    with opened(path) as store:
        assert len(sweep(store, folder_place, older_than_ms=DAY_MS).waiting) == len(left)
        os.utime(left[0], (0, 0))
        assert len(sweep(store, folder_place, older_than_ms=DAY_MS, dry_run=True).removed) == 1
        swept = sweep(store, folder_place, older_than_ms=DAY_MS)
        assert [home / each.path for each in swept.removed] == left[:1]
        assert not left[0].exists()
        assert len(sweep(store, folder_place, older_than_ms=0).removed) == 2  # and the object without a record
    assert not left[1].exists()
    assert len(list(home.rglob(".*.tmp"))) == 2
