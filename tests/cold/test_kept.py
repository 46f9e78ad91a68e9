"""Segments in object storage, and what else is done with a store: backups of it and stores made of them."""

from pathlib import Path

import diskstream
from diskstream.backups import Seen, Settings, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.cold import move_out

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
    restore(backup, tmp_path / "again", Wanted())
    with diskstream.open(tmp_path / "again") as store:
        assert [entry["n"] for entry in store.stream("x").range()] == [b"%d" % n for n in range(ENTRIES + 1)]
        assert store.verify(cold=True).ok
