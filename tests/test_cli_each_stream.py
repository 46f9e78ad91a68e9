"""Verbs that go over all streams: one that cannot be read is told of, the others are done, and the status is 1."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.cold_segments import opened as being_moved
from diskstream.copying import temporary_name
from diskstream.engine import seal
from diskstream.engine.frames import frame_at
from diskstream.engine.log import StreamLog
from tests.repair.test_cases import flip
from tests.repair.test_later_versions import VERSION, put

SOUND = ("a", "z")
SPOILT = ("later", "rotten")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Object storage that has the first segments of each stream."""
    (tmp_path / "place").mkdir()
    return f"file://{tmp_path / 'place'}"


@pytest.fixture
def store(tmp_path: Path, place: str) -> Path:
    """Four streams with segments in object storage and here, and rolled logs; one of a later version, one damaged."""
    path = tmp_path / "store"
    with diskstream.open(path, seal="manual", segment_bytes=16 << 10, node_max_entries=4) as store:
        for name in SOUND + SPOILT:
            store.stream(name).add_many([{"n": "." * 400} for _ in range(60)], ids=[f"{n}-0" for n in range(1, 61)])
            store.seal(name)
            for number in range(61, 120):
                store.stream(name).add({"n": "." * 400}, f"{number}-0")
            store.stream(name).set_retention(max_entries=1000)
    for name in SOUND + SPOILT:
        assert run(path, "cold", "move", name, "--to", place, "--before", "60-1").exit_code == 0
    put(active(path, "later"), 8, VERSION, 0, 64)
    log = active(path, "rotten")
    first = frame_at(log.read_bytes(), 4096, None)
    assert first is not None
    flip(log, first.end + 80)
    return path


def active(store: Path, name: str) -> Path:
    return max((store / "streams" / name).glob("*.log"))


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--dir", str(store)])


def told(result: Result) -> list[str]:
    return [line.split(": ")[1] for line in result.stderr.splitlines() if line.startswith("error: ")]


def of_the_others(done: Result) -> list[dict[str, Any]]:
    """The objects of the streams with which it was done: each that was told of has one that says so to a program."""
    failed = [each for each in objects(done) if each.get("error")]
    assert [each["stream"] for each in failed] == told(done)
    assert all(set(each) == {"stream", "error", "hint"} for each in failed)
    return [each for each in objects(done) if not each.get("error")]


def objects(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def in_storage(store: Path, name: str) -> int:
    return len(list((store / "streams" / name).glob("*.cold")))


def test_seal_and_compact_do_the_others(store: Path) -> None:
    done = run(store, "seal")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    with diskstream.open(store, read_only=True) as opened:
        assert int(done.stdout) == sum(opened.stream(name).info().segments - 1 for name in SOUND) - 2 > 0
    assert [len(list((store / "streams" / name).glob("*.log"))) for name in SOUND] == [1, 1]
    done = run(store, "compact", "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert [each["stream"] for each in objects(done) if "error" not in each] == list(SOUND)
    assert [each["stream"] for each in objects(done) if "error" in each] == list(SPOILT)


def test_what_was_sealed_is_counted_whoever_comes_first(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the background of the verb's own store did some of it, and a smaller number was printed."""
    sealing = diskstream.Store.seal

    def late(self: diskstream.Store, name: bytes, **how: Any) -> int:
        self.stream(name).info()  # opens it
        keeper = self._begun_keeper()
        keeper._each(keeper._attend)  # as at each of its looks
        return sealing(self, name, **how)

    with diskstream.open(store, read_only=True) as opened:
        before = sum(opened.stream(name).info().sealed_segments for name in SOUND)
    monkeypatch.setattr(diskstream.Store, "seal", late)
    done = run(store, "seal")
    with diskstream.open(store, read_only=True) as opened:
        after = sum(opened.stream(name).info().sealed_segments for name in SOUND)
    assert int(done.stdout) == after - before > 0


def test_cold_ls_lists_the_others(store: Path) -> None:
    done = run(store, "cold", "ls", "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert {each["stream"] for each in of_the_others(done)} == {*SOUND, "rotten"}  # of which there may be more


def test_cold_ls_of_a_place_takes_nothing_of_what_cannot_be_read_for_unneeded(store: Path, place: str) -> None:
    done = run(store, "cold", "ls", "--at", place, "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert {(each["stream"], each["where"]) for each in of_the_others(done)} == {(name, "cold") for name in SOUND}
    assert "what no stream lists is left out" in done.stderr


def test_segments_of_the_others_go_and_come_back(store: Path, place: str) -> None:
    before = {name: in_storage(store, name) for name in SOUND + SPOILT}
    done = run(store, "cold", "fetch", "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert [in_storage(store, name) for name in SOUND] == [0, 0]
    assert [in_storage(store, name) for name in SPOILT] == [before[name] for name in SPOILT]
    done = run(store, "cold", "move", "--to", place, "--before", "60-1")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert {name: in_storage(store, name) for name in SOUND + SPOILT} == before
    for name in SOUND:
        min((store / "streams" / name).glob("*.cold")).unlink()
    done = run(store, "cold", "adopt", "--from", place)
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert {name: in_storage(store, name) for name in SOUND + SPOILT} == before


@pytest.mark.parametrize("words", [["show"], ["apply", "--force"]], ids=" ".join)
def test_a_damaged_stream_is_not_one_without_a_rule(store: Path, words: list[str]) -> None:
    """What set its rule stands behind the damage: nothing was said of it."""
    done = run(store, "retention", *words, "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert [each["stream"] for each in of_the_others(done)] == list(SOUND)


@pytest.mark.parametrize("words", [["info", "rotten"], ["ls", "rotten"]], ids=" ".join)
def test_a_damaged_log_is_told_of_though_segments_are_in_object_storage(store: Path, words: list[str]) -> None:
    """Its length up to the damage was shown, and no last entry: as where a storage is not asked."""
    done = run(store, *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "00000004.log: frame payload" in done.stderr


@pytest.mark.parametrize("words", [["ls"], ["group", "ls"]], ids=" ".join)
def test_a_stream_that_a_disk_does_not_read_is_told_of(
    store: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others were not listed."""
    opened = diskstream.Store._log

    def failing(self: diskstream.Store, name: bytes, *, create: bool) -> object:
        if name == b"a":
            raise diskstream.StorageError("00000001.log", "read", 5, "Input/output error")
        return opened(self, name, create=create)

    monkeypatch.setattr(diskstream.Store, "_log", failing)
    with diskstream.open(store) as made:
        made.stream("z").create_group("g")
    done = run(store, *words, "--json")
    assert (done.exit_code, told(done)) == (1, ["a", *SPOILT])
    assert [each["stream"] for each in of_the_others(done)] == ["z"]


def test_a_full_disk_is_not_told_of_each(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise diskstream.DiskFullError("x", "write to", 28, "No space left on device")

    monkeypatch.setattr(diskstream.Store, "seal", full)
    done = run(store, "seal")
    assert done.exit_code == 1
    assert done.stderr.count("error: ") == 1


@pytest.mark.parametrize("verb", ["seal", "compact"])
def test_a_program_is_told_what_was_done_before_the_disk_was_full(
    store: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got no object, nor anybody the number of segments that were sealed."""
    seal_one = seal._seal_one
    done_before: list[StreamLog] = []

    def full_at_the_second(log: StreamLog, *rest: Any) -> bool:
        if done_before:
            raise diskstream.DiskFullError("x", "write to", 28, "No space left on device")
        done_before.append(log)
        return seal_one(log, *rest)

    for name in ("a", *SPOILT):
        shutil.rmtree(store / "streams" / name)
    monkeypatch.setattr(seal, "_seal_one", full_at_the_second)
    done = run(store, verb, "--json")
    why = {"stream": "z", "error": "could not write to x: No space left on device: free some space and try again"}
    whole = {"sealed": 1, "failed": [why | {"hint": None}]} if verb == "seal" else why | {"hint": None}
    assert (done.exit_code, objects(done), done.stderr.count("error: ")) == (1, [whole], 1)


def test_a_stream_whose_segments_somebody_else_moves_keeps_nobody_from_the_others(store: Path, place: str) -> None:
    """As a rule of retention does in the background of a server: the streams behind that one were left out."""
    before = in_storage(store, "a")
    with diskstream.open(store) as opened, being_moved(opened.stream("a")):
        for words in (["move", "--to", place, "--before", "60-1"], ["adopt", "--from", place], ["fetch"]):
            done = run(store, "cold", *words)
            assert (done.exit_code, told(done)) == (1, ["a", *SPOILT])
    assert (in_storage(store, "z"), in_storage(store, "a")) == (0, before)


def test_a_stream_that_is_removed_as_all_are_listed_is_passed_over(store: Path) -> None:
    """The list ended there, with an error."""
    with diskstream.open(store) as opened:

        def removed(name: object) -> bool:
            if name == b"a":
                opened.delete("a")
            return False

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("diskstream.engine.names.is_unfinished", removed)
            done = run(store, "ls", "--json")
    assert (done.exit_code, told(done)) == (1, list(SPOILT))
    assert [each["stream"] for each in of_the_others(done)] == ["z"]


def test_what_comes_before_damage_is_shown(store: Path) -> None:
    """Of each few hundred entries that are written at once, those before the damage were not."""
    readable: list[str] = []
    with diskstream.open(store, read_only=True) as opened, pytest.raises(diskstream.CorruptionError):
        readable.extend(str(entry.id) for entry in opened.stream("rotten").range())
    assert readable
    for words in (["range", "rotten"], ["tail", "rotten", "--from", "0"]):
        done = run(store, *words, "--json")
        assert done.exit_code == 1
        assert "00000004.log: frame payload" in done.stderr
        assert [each["id"] for each in objects(done)] == readable


@pytest.mark.parametrize(
    "words",
    [
        ["top", "--once", "--interval", "50ms"],
        ["group", "ls"],
        ["retention", "show"],
        ["retention", "apply", "--force"],
        ["cold", "ls"],
        ["compact"],
    ],
    ids=" ".join,
)
def test_what_a_restore_is_making_is_no_stream_yet(tmp_path: Path, words: list[str]) -> None:
    """As `ls` has it: it was shown with a name that nobody gave it, and its segments were moved, and compacted."""
    with diskstream.open(tmp_path / "s", seal="manual", retention_interval_ms=0) as store:
        for name in (b"a", temporary_name()):
            stream = store.stream(name)
            stream.add_many([{"n": 1}, {"n": 2}])
            stream.create_group("g", start="0")
            store.seal(name)
            stream.set_retention(max_entries=1)
    done = run(tmp_path / "s", *words, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    shown = objects(done)
    if words[0] == "top":
        (pulse,) = shown
        shown = [*pulse["streams"], *pulse["groups"]]  # type: ignore[misc]  # lists, as JSON has them
    assert {each["stream"] for each in shown} == {"a"}
