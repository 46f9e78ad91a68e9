"""Whatever happens to the files of a stream: after a repair it opens, and nothing is gone that was not reported.

A long run, from seed 1000 on: ``python -m tests.repair.test_random_damage 1000 5000``.
"""

import random
import sys
import tempfile
from pathlib import Path

import pytest

import diskstream
from diskstream import Repair
from diskstream.engine.files import Files
from diskstream.engine.repair import repair_stream
from diskstream.engine.repair_plan import plan_stream
from tests.repair.damage import NAME, build, check, damage, directory, options


def ranges(report: Repair) -> list[tuple[str, str, int | None]]:
    return [(loss.first, loss.last, loss.entries) for loss in report.losses]


def words(report: Repair) -> str:
    return " ".join([*report.notes, *(loss.what for loss in report.losses)])


def one(folder: Path, seed: int) -> str:
    """Builds, damages, plans, repairs and checks a store. Returns what was done to it."""
    rng = random.Random(seed)
    past = build(folder / "store", seed)
    stream = directory(folder / "store")
    done = ", ".join(damage(stream, rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
    before = {path.name: path.read_bytes() for path in stream.iterdir() if path.is_file()}
    verified = diskstream.verify(folder / "store")
    plan = plan_stream(NAME, stream, options(seed), folder / "plan")
    assert {path.name: path.read_bytes() for path in stream.iterdir() if path.is_file()} == before, done
    report = repair_stream(NAME, stream, Files(), options(seed))
    assert (plan.actions, ranges(plan)) == (report.actions, ranges(report)), done
    assert not verified.ok or not report.losses, f"seed {seed}: {done}: verify saw nothing of {report.losses}"
    assert verified.ok or report.actions, f"seed {seed}: {done}: nothing was done about {verified.problems}"
    try:
        check(folder / "store", past, report.losses, words(report), seed)
        again = repair_stream(NAME, stream, Files(), options(seed))
        assert not again.actions
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {done}: {error}\n{report}") from error
    return done


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_what_cannot_be_kept_is_reported_and_all_else_is_kept(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + 10):
        one(tmp_path / str(seed), seed)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as place:
            try:
                one(Path(place), number)
            except Exception as found:  # noqa: BLE001  # a long run goes on
                sys.stdout.write(f"{number}: {type(found).__name__}: {str(found)[:2000]}\n")
