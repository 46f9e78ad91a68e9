"""A stream whose name another one was about to take when that died: it is one, and has its name when asked for."""

from pathlib import Path

import diskstream
from diskstream.engine import quarantine
from tests.engine.stand_ins import Watched
from tests.repair.test_cases import flip, folder


def test_a_dry_run_says_what_a_repair_does_with_it(tmp_path: Path) -> None:
    """It had nothing to say of it, and a repair mended it."""
    with diskstream.open(tmp_path, seal="manual", node_max_entries=10) as store:
        for name in ("s", "t"):
            store.stream(name).add_many([{"n": str(number)} for number in range(30)])
            store.seal(name)
    flip(folder(tmp_path) / "00000001.seg", 100)
    folder(tmp_path).rename(tmp_path / "streams" / ".replaced-s")
    planned = [(report.stream, report.actions) for report in diskstream.repair(tmp_path, dry_run=True)]
    assert planned == [(report.stream, report.actions) for report in diskstream.repair(tmp_path)]
    assert (b"s", ["wrote segment 1 anew: 20 of 30 entries can be read"]) in planned


def test_what_is_kept_is_durable_also_where_the_quarantine_was_made_by_who_died(tmp_path: Path) -> None:
    """He may have died before its name was flushed: a power cut took it with all that the repair had kept there."""
    steps: list[tuple[str, Path]] = []
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "file").write_bytes(b"damaged")
    kept = quarantine.keep(tmp_path / "file", tmp_path / "quarantine", Watched(lambda *step: steps.append(step)))
    assert ("sync_dir", tmp_path) in steps
    assert kept.read_bytes() == b"damaged"
