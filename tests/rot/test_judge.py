"""The judge of damage can condemn: each mistake that is planted is seen."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream import Stream
from diskstream.engine.verify import VerifyReport
from diskstream.errors import CorruptionError
from diskstream.store import Store
from tests.engine.sample import fast_directory
from tests.rot import batch, damages, subjects
from tests.rot.damages import Damage, Foreign
from tests.torture import rot
from tests.torture.model import Budget

LOG = "store/streams/x/00000005.log"


@pytest.fixture(scope="module")
def victim() -> Iterator[subjects.SmallStore]:
    with fast_directory() as path:
        yield subjects.SmallStore(path / "ours")


def flipped(victim: subjects.SmallStore, path: str = LOG, at: int = 4200) -> Damage:
    return damages.flipped(victim.tree.files, path, at, 3)


def test_right_data_and_an_error_are_told_apart(victim: subjects.SmallStore) -> None:
    assert victim.run(1, flipped(victim)) == ("a typed error", [])
    assert victim.run(1, flipped(victim, "store/view/lock.mdb", 3)) == ("right data", [])
    sealed = "store/streams/x/00000003.seg"
    assert victim.run(1, Damage("missing files", "gone", {sealed: None})) == ("a typed error", [])
    assert victim.run(1, Damage("no files", "none", {sealed: Foreign.LOOP}))[1] == []


def test_all_is_put_back_after_each(victim: subjects.SmallStore) -> None:
    for number in range(6):
        victim.run(number, flipped(victim, at=4096 + number))
    assert damages.Tree(victim.root).files == victim.tree.files


def test_wrong_data_is_condemned(victim: subjects.SmallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Stream.range

    def other(self: Stream, *words: object) -> object:
        entries = list(read(self, *words))  # type: ignore[arg-type]  # handed on as it came
        return iter([*entries[:2], entries[1], *entries[3:]])

    monkeypatch.setattr(Stream, "range", other)
    (offence, *_) = victim.run(1, flipped(victim, "store/view/lock.mdb", 3))[1]
    assert "forwards and backwards differ" in offence or "nobody wrote" in offence


def test_an_entry_that_is_gone_in_silence_is_condemned(
    victim: subjects.SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, back = Stream.range, Stream.revrange
    monkeypatch.setattr(Stream, "range", lambda self, *words: iter(list(read(self, *words))[:-1]))
    monkeypatch.setattr(Stream, "revrange", lambda self, *words: iter(list(back(self, *words))[1:]))
    monkeypatch.setattr(Stream, "__len__", lambda self: len(list(self.range())))
    offences = victim.run(1, flipped(victim, "store/view/lock.mdb", 3))[1]
    assert "something is gone or wrong, in silence" in offences


def test_a_verify_that_is_blind_is_condemned(victim: subjects.SmallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "verify", lambda self, **_: VerifyReport())
    assert any("verify finds nothing" in offence for offence in victim.run(1, flipped(victim))[1])


@pytest.mark.parametrize("error", [KeyError("x"), IsADirectoryError(21, "x"), CorruptionError("", "x", 0, "a", "b")])
def test_an_error_of_another_kind_or_without_a_place_is_condemned(
    victim: subjects.SmallStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(Stream, "audit", fail)
    assert victim.run(1, flipped(victim))[1]


def test_a_file_that_a_reader_changes_is_put_back(victim: subjects.SmallStore) -> None:
    (victim.root / "store" / "stranger").write_bytes(b"x")
    (victim.root / LOG).unlink()
    (victim.root / LOG).mkdir()
    victim.tree.restore()
    assert damages.Tree(victim.root).files == victim.tree.files


def test_a_dead_interpreter_is_a_violation_and_names_its_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def deadly(command: list[str], **options: object) -> object:
        lines = [["in", "/place"], ["next", 7, "flipped bits", "store: byte 9 flipped"]]
        said = "".join(json.dumps(line) + "\n" for line in lines)
        program = f"import os, sys; sys.stdout.write({said!r}); sys.stdout.flush(); os.abort()"
        return start([sys.executable, "-c", program], **options)  # type: ignore[call-overload]  # handed on as it came

    monkeypatch.setattr(subprocess, "Popen", deadly)
    report = rot.run(Budget(1, 0.1))
    assert (
        f"store: byte 9 flipped: the process ended with {signal.SIGABRT.name} (/place is left)" in report.violations[0]
    )


def test_what_was_not_survived_is_kept(victim: subjects.SmallStore) -> None:
    kept = Path(batch.keep(victim, flipped(victim)))
    assert (kept / "ours" / LOG).read_bytes() != victim.tree.files[LOG]
    assert damages.Tree(victim.root).files == victim.tree.files
    shutil.rmtree(kept)


def test_every_byte_is_reached_and_all_kinds_of_damage_are(victim: subjects.SmallStore) -> None:
    paths = ["store/store.json", "store/streams/cold/00000001.cold"]
    size = sum(len(victim.tree.files[path]) for path in paths)
    assert len(set(damages.every_byte(victim.tree.files, paths, 1))) == size
    found = damages.damages(victim.tree.files, paths, 1, victim.tree.files)
    seen = [next(found)[1] for _ in range(size * 6 // 4 + 6)]
    flips = {damage.label.replace(damage.label.partition(": bit ")[2][:1], "", 1) for damage in seen}
    assert len([label for label in flips if "of byte" in label]) >= size
    assert len({damage.kind for damage in seen}) == 11
    assert all(damage.changed for damage in seen)
