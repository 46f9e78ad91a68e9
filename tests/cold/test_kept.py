"""Segments in object storage, and what else is done with a store: backups of it and stores made of them."""

import json
import tempfile
from pathlib import Path

from click.testing import CliRunner, Result

import diskstream
from diskstream.backups import Seen, Settings, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.cli import main
from diskstream.cold import move_out, sweep
from tests.backups.world import flip_in_place
from tests.cold.world import filled, opened

ENTRIES = 3000


def test_a_backup_has_the_stubs_and_what_is_restored_reads_through_them(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", segment_bytes=1 << 16, seal="manual") as store:
        stream = store.stream("x")
        for first in range(0, ENTRIES, 100):
            stream.add_many([{"n": str(n), "pad": "." * 50} for n in range(first, first + 100)])
        stream.seal()
        report = move_out(stream, f"file://{tmp_path / 'cold'}", keep_entries=500)
        assert len(report.segments) > 1
        stream.add({"n": str(ENTRIES)})
        make_backup(tmp_path / "s", tmp_path / "kept", Settings())
    backup = find_backup(tmp_path / "kept")
    assert check_backup(backup, Seen()) == []
    assert list(backup.path.rglob("*.cold"))
    seen = Seen()
    assert check_backup(backup, seen, cold=True) == []
    assert seen.cold_segments == len(report.segments)
    restore(backup, tmp_path / "again", Wanted())
    with diskstream.open(tmp_path / "again") as store:
        assert [entry["n"] for entry in store.stream("x").range()] == [b"%d" % n for n in range(ENTRIES + 1)]
        assert store.verify(cold=True).ok


def test_who_restores_is_told_that_objects_are_shared_with_the_store_that_was_backed_up(tmp_path: Path) -> None:
    """Nothing said so, and a sweep of the one took what the other still had to read."""
    place = f"file://{tmp_path / 'cold'}"
    with opened(tmp_path / "store") as store:
        report = move_out(filled(store), place, older_than_ms=0)
        make_backup(store.path, tmp_path / "kept")

    def restored(*words: str) -> Result:
        return CliRunner().invoke(main, ["restore", str(tmp_path / "kept"), "--to", *words])

    told = " ".join(restored(str(tmp_path / "again")).stderr.split())
    assert f"{len(report.segments)} segments" in told
    assert "`diskstream cold sweep` of either may remove what the other needs" in told
    assert f"`diskstream cold fetch --dir {tmp_path / 'again'}`" in told
    facts = json.loads(restored(str(tmp_path / "third"), "--json").stdout)
    assert facts["cold_segments"] == len(report.segments)
    assert CliRunner().invoke(main, ["cold", "fetch", "--dir", str(tmp_path / "again")]).exit_code == 0
    with opened(tmp_path / "store") as store:
        store.stream("x").trim(minid="101")
        store.seal()
        sweep(store, place, older_than_ms=0)
    with opened(tmp_path / "again") as store:
        assert store.verify(cold=True).ok
        assert len(list(store.stream("x").range())) == len(store.stream("x")) > 0
    with opened(tmp_path / "third") as store:
        assert not store.verify(cold=True).ok  # so it was not said for nothing


def test_what_a_backup_only_refers_to_is_read_when_told_to(tmp_path: Path) -> None:
    """Nothing said that the objects of a backup were gone or damaged, until it was restored and read."""
    with opened(tmp_path / "store") as store:
        report = move_out(filled(store), f"file://{tmp_path / 'cold'}", older_than_ms=0)
        make_backup(store.path, tmp_path / "kept")

    def verified(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["backup", "verify", str(tmp_path / "kept"), *words])
        return result.exit_code, result.stdout

    assert verified("--cold")[0] == 0
    (tmp_path / "cold" / report.segments[0].path).unlink()
    damaged = tmp_path / "cold" / report.segments[1].path
    damaged.chmod(0o640)
    flip_in_place(damaged, 100)
    # What was fetched before would be read there.
    assert not list(Path(tempfile.gettempdir()).glob(f"diskstream-cold-*-{damaged.parent.parent.name}"))
    code, said = verified()
    assert code == 0
    assert f"not read: {len(report.segments)} segments" in said
    code, said = verified("--cold")
    assert code == 1
    assert "00000001.cold" in said
    assert str(report.segments[1].path) in said
    assert said.endswith("2 faults\n")
    assert json.loads(verified("--cold", "--json")[1].splitlines()[-1])["cold_segments"] == len(report.segments)


def test_a_place_that_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        report = move_out(filled(store), f"file://{tmp_path / 'cold'}", older_than_ms=0)
        make_backup(store.path, tmp_path / "kept")
    (tmp_path / "cold").rename(tmp_path / "away")
    words = ["backup", "verify", str(tmp_path / "kept"), "--cold"]
    told = CliRunner().invoke(main, words).stdout
    assert told.count("there is no folder") == 1
    assert f"and {len(report.segments) - 1} more that cannot be read from file://" in told
    assert told.endswith(f"{len(report.segments)} faults\n")
    *findings, _ = map(json.loads, CliRunner().invoke(main, [*words, "--json"]).stdout.splitlines())
    assert [each["place"] for each in findings] == [f"file://{tmp_path / 'cold'}"] * len(report.segments)
