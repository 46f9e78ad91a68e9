"""A copy that is removed or replaced while it is archived to: the stream is given up, and nothing more is trimmed."""

import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, Server, stream_copy, trimming
from diskstream.archiving.reports import ArchiveReport
from diskstream.archiving.stream_copy import StreamCopy
from diskstream.stream import Stream
from tests.archiving.test_refused import finding
from tests.archiving.world import World


def remove(world: World) -> None:
    with diskstream.open(world.directory) as store:
        store.delete("s")


def replace(world: World) -> None:
    """By one that ends where the copy did, and holds something else."""
    with diskstream.open(world.directory) as store:
        last = store.stream("s").last_id()
        store.delete("s")
        store.stream("s").add({"another": 1}, last)


def rename(world: World) -> None:
    with diskstream.open(world.directory) as store:
        store.rename("s", "old")


CHANGES = pytest.mark.parametrize("change", [remove, replace, rename])


def followed(world: World, rounds: list[Callable[[], None]], *, trim: bool = True, **options: Any) -> ArchiveReport:
    """`archive --follow`, with something done behind each round but the last; what became of the stream."""
    stop, real, left = threading.Event(), StreamCopy.round, list(rounds)

    def counted(self: StreamCopy, *words: Any, **named: Any) -> int:
        copied = real(self, *words, **named)
        if left:
            left.pop(0)()
        else:
            stop.set()
        return copied

    with (
        pytest.MonkeyPatch.context() as patch,
        Server(world.url) as server,
        diskstream.open(world.directory) as store,
    ):
        patch.setattr(StreamCopy, "round", counted)
        archiver = Archiver(server, store, [b"s"], ArchiveOptions(follow=True, trim=trim, batch=10, **options))
        (report,) = archiver.run(stop).reports
    assert not left
    return report


def refused(report: ArchiveReport) -> None:
    assert "it was deleted or replaced" in (report.error or ""), report
    assert "remove its checkpoint" in (report.hint or "")


@CHANGES
@pytest.mark.parametrize("more", [0, 20], ids=["nothing came", "more came"])
def test_a_copy_that_goes_between_two_rounds_is_not_begun_anew(
    world: World, change: Callable[[World], None], more: int
) -> None:
    """It was, with what came behind: what had been trimmed before was nowhere, and all was called the same."""
    world.fill("s", 30)

    def between() -> None:
        assert world.client.xlen("s") == 0
        change(world)
        world.fill("s", more, first=31)

    refused(followed(world, [between]))
    assert world.client.xlen("s") == more, "more was trimmed"
    if change is not replace:
        assert "it was deleted or replaced" in finding(world, "--trim"), "the next run takes what is left for a copy"
    assert world.client.xlen("s") == more


@CHANGES
def test_nor_between_two_windows_of_a_round(
    world: World, change: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows behind were read back, and right; the one before was gone here and at the source."""
    monkeypatch.setattr(stream_copy, "_WINDOW_ENTRIES", 20)
    world.fill("s", 60)
    real, left = StreamCopy._verified, list[int]()

    def verified(self: StreamCopy, *words: Any) -> None:
        real(self, *words)
        if not left:
            left.append(world.client.xlen("s"))
            change(world)

    monkeypatch.setattr(StreamCopy, "_verified", verified)
    assert "it was deleted or replaced" in finding(world, "--trim", "--batch", "10")
    assert 0 < world.client.xlen("s") == left[0], "more was trimmed than had been copied before"


@CHANGES
@pytest.mark.parametrize("before", [0, 10], ids=["which was copied", "which earlier runs had copied"])
def test_nor_before_a_window_is_read_back(
    world: World, change: Callable[[World], None], monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Of a copy that was gone the flush waited for its last entry, for ever."""
    if before:
        world.fill("s", before)
        world.archive()
    world.fill("s", 30 - before, first=before + 1)
    real, done = Stream.wait_durable, [False]

    def wait(self: Stream, *words: Any) -> bool:
        if not done[0]:
            done[0] = True
            change(world)
        return real(self, *words)

    monkeypatch.setattr(Stream, "wait_durable", wait)
    said = finding(world, "--trim")
    assert "it was deleted or replaced" in said or "the copy lacks its entry" in said
    assert world.client.xlen("s") == 30


def by_hand(world: World) -> None:
    shutil.rmtree(world.directory / "streams" / "s")


@pytest.mark.parametrize("change", [by_hand, remove, replace, rename])
def test_nor_between_two_steps_of_a_trim(
    world: World, change: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed with `rm` it was read still, and all that had been verified went from the source."""
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 10)
    world.fill("s", 60)
    real, left = StreamCopy._went, list[int]()

    def went(self: StreamCopy, *words: Any) -> None:
        real(self, *words)
        if not left:
            left.append(world.client.xlen("s"))
            change(world)

    monkeypatch.setattr(StreamCopy, "_went", went)
    said = finding(world, "--trim")
    assert "it was deleted or replaced" in said or "its files were removed while it was open" in said
    assert world.client.xlen("s") == left[0] == 50


def test_nor_is_what_a_sealed_file_held_that_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has it open reads it still: all of it went from the source, and was nowhere then."""
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 10)
    world.fill("s", 60)
    world.archive()
    world.run("seal", "s", "--dir", str(world.directory))
    real = StreamCopy._went

    def went(self: StreamCopy, *words: Any) -> None:
        real(self, *words)
        for file in world.directory.glob("streams/s/*.seg"):
            file.unlink()

    monkeypatch.setattr(StreamCopy, "_went", went)
    said = finding(world, "--trim")
    assert "its segment 1, entries 1-1 to 60-1, is gone" in said
    assert "bring its file back" in said
    assert world.client.xlen("s") == 50


def test_a_store_that_is_moved_by_hand_is_told_with_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an error of the system, without a word of what could not be done."""
    made, moved = world.fill("s", 60), world.directory.with_name("moved")
    real = StreamCopy._read_back

    def read_back(self: StreamCopy, *words: Any) -> None:
        world.directory.rename(moved)
        real(self, *words)

    with monkeypatch.context() as patched:
        patched.setattr(StreamCopy, "_read_back", read_back)
        said = finding(world, "--trim")
    assert "could not write" in said
    assert "its folder is gone" in said
    assert "run this again where it is now" in said
    again = World(world.url, world.client, moved)
    again.archive("--trim")
    assert (again.copy("s"), again.source("s")) == (made, {})


def test_nor_behind_the_last_window(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left to be written, counters and groups, made an empty stream of it."""
    world.fill("s", 30)
    world.client.xgroup_create("s", "g", "$")
    real = StreamCopy._copy

    def copy(self: StreamCopy, *words: Any) -> None:
        real(self, *words)
        remove(world)

    monkeypatch.setattr(StreamCopy, "_copy", copy)
    assert "it was deleted or replaced" in finding(world, "--trim")
    with diskstream.open(world.directory, read_only=True) as store:
        assert not store.exists("s")


def test_a_copy_is_not_said_to_stay_that_has_gone_with_its_source(world: World) -> None:
    world.fill("s", 30)

    def both() -> None:
        world.client.delete("s")
        remove(world)

    refused(followed(world, [both]))
    assert "it was deleted or replaced" in finding(world)


def test_a_copy_from_which_somebody_deletes_goes_on(world: World) -> None:
    """An entry that the copy lost is no other copy."""
    world.fill("s", 30)

    def empty() -> None:
        with diskstream.open(world.directory) as store:
            store.stream("s").trim(maxlen=0)
        world.fill("s", 10, first=31)

    report = followed(world, [empty])
    assert (report.error, report.entries, report.trimmed) == (None, 40, 40)
