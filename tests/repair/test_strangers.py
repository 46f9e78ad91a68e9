"""Files of another stream in a stream's directory: whose directory it is, and what is kept."""

import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.files import Files, NewFile

ENTRIES = 200


def two_streams(path: Path, sealed: int, *, only_log: str = "") -> Path:
    """A store with streams `a` and `b`, each of so many sealed segments and an active log with one entry.

    The one that has an `only_log` has no sealed segments.
    """
    with diskstream.open(path, seal="manual") as store:
        for name in "ab":
            stream = store.stream(name)
            for part in range(1, sealed + 1 if name != only_log else 1):
                stream.add_many([{"who": name}] * ENTRIES, ids=[f"{part}-{at + 1}" for at in range(ENTRIES)])
                stream.seal()
            stream.add({"who": name}, "9-1")
    return path


def log_of(store: Path, name: str) -> Path:
    (log,) = (store / "streams" / name).glob("*.log")
    return log


def held(store: Path, name: str) -> list[bytes]:
    with diskstream.open(store, seal="manual", read_only=True) as opened:
        assert opened.verify().ok
        return [entry[b"who"] for entry in opened.stream(name)]


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("sealed", [1, 2, 3])
def test_a_log_of_a_stream_that_lives_elsewhere_is_the_stranger(tmp_path: Path, sealed: int, dry_run: bool) -> None:
    """With up to two sealed segments the stranger's log was believed: the stream's own segments were put aside."""
    store = two_streams(tmp_path / "store", sealed)
    log_of(store, "a").write_bytes(log_of(store, "b").read_bytes())
    (found,) = [each for each in diskstream.repair(store, dry_run=dry_run) if each.stream == b"a"]
    aside = [action for action in found.actions if "another stream's" in action]
    assert len(aside) == 1
    assert ".log" in aside[0]
    if not dry_run:
        assert held(store, "a") == [b"a"] * (ENTRIES * sealed)
        assert held(store, "b") == [b"b"] * (ENTRIES * sealed + 1)


@pytest.mark.parametrize("sealed", [2, 3])
def test_of_strangers_from_elsewhere_the_fewer_files_go(tmp_path: Path, sealed: int) -> None:
    store, other = two_streams(tmp_path / "store", sealed), two_streams(tmp_path / "other", sealed)
    log_of(store, "a").write_bytes(log_of(other, "b").read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"] * (ENTRIES * sealed)


def test_a_sealed_segment_of_a_stream_that_lives_elsewhere_goes(tmp_path: Path) -> None:
    store = two_streams(tmp_path / "store", 2)
    for name in ("00000001.seg", "00000002.seg"):
        (store / "streams" / "a" / name).write_bytes((store / "streams" / "b" / name).read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"]
    assert held(store, "b") == [b"b"] * (2 * ENTRIES + 1)


def test_of_as_many_files_those_are_right_that_are_what_their_names_say(tmp_path: Path) -> None:
    """The first log of another store's stream stood where the second one was: it was taken for the stream."""
    store, other = two_streams(tmp_path / "store", 1), two_streams(tmp_path / "other", 0)
    log_of(store, "a").write_bytes(log_of(other, "b").read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"] * ENTRIES


# --- files that lie in each other's place -----------------------------------------------------------------------------


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def all_there(store: Path, sealed: int = 3) -> None:
    """That both streams have all that `two_streams` wrote, and that a further repair finds nothing to do."""
    for name in "ab":
        assert held(store, name) == [name.encode()] * (ENTRIES * sealed + 1)
    assert [report for report in diskstream.repair(store) if report.actions or report.losses] == []


@pytest.mark.parametrize("streams", [[], ["b", "a"]])
@pytest.mark.parametrize("kind", ["00000002.seg", "00000004.log"])
def test_files_of_two_streams_that_were_exchanged_go_back(tmp_path: Path, kind: str, streams: list[str]) -> None:
    """Each was put aside, and its stream said to have lost it, though it lay in the directory of the other."""
    store = two_streams(tmp_path / "store", 3)
    exchange(store / "streams" / "a" / kind, store / "streams" / "b" / kind)
    planned = list(diskstream.repair(store, dry_run=True))
    assert [loss for report in planned for loss in report.losses] == []
    for only in [[name] for name in streams] or [[]]:
        for report in diskstream.repair(store, streams=only):
            assert (report.losses, report.failed) == ([], "")
            assert any(kind in action and "brought" in action for action in report.actions)
    all_there(store)


@pytest.mark.parametrize("only_log", ["a", "b"])
@pytest.mark.parametrize("sealed", [1, 2, 3])
def test_the_only_log_of_a_stream_that_was_exchanged_goes_back(tmp_path: Path, sealed: int, only_log: str) -> None:
    """It was taken for that of the other stream, whose segments were copied beside it, and these put aside as lost."""
    store = two_streams(tmp_path / "store", sealed, only_log=only_log)
    exchange(log_of(store, "a"), log_of(store, "b"))
    planned = [(found.stream, found.actions, found.losses) for found in diskstream.repair(store, dry_run=True)]
    done = [(found.stream, found.actions, found.losses) for found in diskstream.repair(store)]
    assert planned == done
    for name in "ab":
        assert held(store, name) == [name.encode()] * (1 if name == only_log else ENTRIES * sealed + 1)
    assert not any(found.actions for found in diskstream.repair(store))


def test_so_does_that_of_a_queue_which_has_let_go_of_all_before_it(tmp_path: Path) -> None:
    store = two_streams(tmp_path / "store", 3, only_log="b")
    with diskstream.open(store, seal="manual") as opened:
        queue = opened.stream("b")
        queue.seal()
        queue.delete("9-1")
        queue.add({"who": "b"}, "9-2")
    assert log_of(store, "b").name == "00000002.log"
    exchange(log_of(store, "a"), log_of(store, "b"))
    reports = list(diskstream.repair(store))
    assert [loss for report in reports for loss in report.losses] == []
    assert held(store, "a") == [b"a"] * (ENTRIES * 3 + 1)
    assert held(store, "b") == [b"b"]


@pytest.mark.parametrize("only_log", ["a", "b"])
@pytest.mark.parametrize("sealed", [1, 3])
def test_a_stream_of_which_nothing_is_left_is_not_taken_for_another(tmp_path: Path, sealed: int, only_log: str) -> None:
    """A later log of another stream stood in the place of its only one: it became that stream, and nothing was lost."""
    store = two_streams(tmp_path / "store", sealed, only_log=only_log)
    other = "ab".replace(only_log, "")
    log_of(store, only_log).write_bytes(log_of(store, other).read_bytes())
    reports = {found.stream: found for found in diskstream.repair(store)}
    assert [(loss.first, loss.last) for loss in reports[only_log.encode()].losses] == [("0-1", "")]
    assert held(store, only_log) == []
    assert held(store, other) == [other.encode()] * (ENTRIES * sealed + 1)
    assert not reports[other.encode()].actions


def test_segments_of_a_stream_that_were_exchanged_go_back(tmp_path: Path) -> None:
    """One of the two got its name back, and the other one was lost."""
    store = two_streams(tmp_path / "store", 3)
    folder = store / "streams" / "a"
    exchange(folder / "00000002.seg", folder / "00000003.seg")
    assert [report.losses for report in diskstream.repair(store, dry_run=True) if report.stream == b"a"] == [[]]
    (report,) = [each for each in diskstream.repair(store) if each.stream == b"a"]
    assert (report.losses, report.failed) == ([], "")
    all_there(store)


def test_where_nobody_can_know_whose_directory_it_is_that_is_said(tmp_path: Path) -> None:
    """With one sealed segment each, logs that were exchanged look as segments do: nothing is lost but who is who."""
    store = two_streams(tmp_path / "store", 1)
    exchange(log_of(store, "a"), log_of(store, "b"))
    reports = list(diskstream.repair(store))
    assert [loss for report in reports for loss in report.losses] == []
    assert any("rename both" in note for report in reports for note in report.notes)
    assert sorted(held(store, "a") + held(store, "b")) == [b"a"] * (ENTRIES + 1) + [b"b"] * (ENTRIES + 1)
    assert len(set(held(store, "a"))) == 1


def test_a_log_found_elsewhere_is_copied_and_perhaps_not_the_last(tmp_path: Path) -> None:
    """It may be a copy that somebody made before more was added: that is said. What is added now stays out of it."""
    store = two_streams(tmp_path / "store", 3)
    log_of(store, "a").rename(store / "streams" / "b" / "00000009.log")
    (report,) = [each for each in diskstream.repair(store, streams=["a"]) if each.stream == b"a"]
    assert any("00000004.log" in note and "copy" in note for note in report.notes)
    with diskstream.open(store, seal="manual") as opened:
        opened.stream("a").add({"who": "a"}, "10-1")
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"] * (ENTRIES * 3 + 2)
    assert held(store, "b") == [b"b"] * (ENTRIES * 3 + 1)


def test_what_a_repair_kept_of_a_damaged_log_does_not_come_back(tmp_path: Path) -> None:
    """It is older than the one that is lost, and stood where it belongs: nothing of it was misplaced."""
    store = two_streams(tmp_path / "store", 2)
    log = log_of(store, "a")
    log.write_bytes(log.read_bytes().replace(b"who", b"rot"))
    list(diskstream.repair(store))
    assert list((log.parent / "quarantine").glob(f"{log.name}-*"))
    log.unlink()
    (report,) = [each for each in diskstream.repair(store) if each.stream == b"a"]
    assert report.losses
    assert not any("brought" in action for action in report.actions)


class _KilledError(Exception):
    """Stands for SIGKILL: nothing of the repair runs any more."""


class _Dying(Files):
    """Files of a process that is killed in its call number `left`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _live(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _KilledError

    def create(self, path: Path) -> NewFile:
        self._live()
        return super().create(path)

    def rename(self, source: Path, target: Path) -> None:
        self._live()
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._live()
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._live()
        super().unlink(path)


def test_killed_in_any_call_while_files_go_back_it_is_finished_by_the_next(tmp_path: Path) -> None:
    original = two_streams(tmp_path / "original", 5)
    for kind in ("00000002.seg", "00000006.log"):
        exchange(original / "streams" / "a" / kind, original / "streams" / "b" / kind)
    exchange(original / "streams" / "a" / "00000001.seg", original / "streams" / "a" / "00000003.seg")
    died = 0
    for call in range(40):
        store = tmp_path / str(call)
        shutil.copytree(original, store)
        try:
            list(diskstream.repair(store, files=_Dying(call)))
        except _KilledError:
            died += 1
        assert [report.losses for report in diskstream.repair(store) if report.losses] == []
        all_there(store, 5)
    assert 10 < died < 40
