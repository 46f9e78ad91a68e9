"""What reads whole ranges reaches through to cold storage: exports, replays, counts, digests, restores."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream import Stream
from diskstream.cli import main
from diskstream.cold import move_out
from diskstream.cold_segments import STUB, segments_of
from tests.cold.s3_server import Door, refusal
from tests.cold.world import ENTRIES, SMALL, rows, where
from tests.exporting.stored import table_of


def run(directory: Path, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words, "--dir", str(directory)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def directory(stream: Stream, place: str) -> Path:
    """A store most of whose segments are at the place, and nowhere else."""
    move_out(stream, place, keep_entries=40)
    assert len(set(where(stream))) > 1
    stream._store.close()
    return stream._store.path


def expected(directory: Path) -> list[dict[str, Any]]:
    with diskstream.open(directory, read_only=True, cold_cache_bytes=0, **SMALL) as store:
        found = rows(store.stream("x"))
    assert len(found) == ENTRIES
    return [
        {"id": str(entry_id), "fields": {name.decode(): value.decode() for name, value in pairs}}
        for entry_id, pairs in found
    ]


def test_exports_in_each_format_have_what_is_cold(directory: Path, tmp_path: Path) -> None:
    wanted = expected(directory)
    run(directory, "export", "x", "-o", str(tmp_path / "x.jsonl"))
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == wanted
    for kind in ("parquet", "arrow"):
        run(directory, "export", "x", "-o", str(tmp_path / f"x.{kind}"), "--columns", "n,pad")
        table = table_of(tmp_path / f"x.{kind}")
        assert table.column("n").to_pylist() == [row["fields"]["n"].encode() for row in wanted]
        assert table.column("pad").to_pylist() == [row["fields"]["pad"].encode() for row in wanted]
    run(directory, "export", "x", "-o", str(tmp_path / "x.csv"))
    assert len((tmp_path / "x.csv").read_bytes().splitlines()) == ENTRIES + 1
    run(directory, "export", "x", "-o", str(tmp_path / "parts"), "--format", "parquet", "--rows-per-file", "64")
    assert sum(table_of(part).num_rows for part in (tmp_path / "parts").glob("part-*")) == ENTRIES


def test_replays_send_what_is_cold(directory: Path, tmp_path: Path) -> None:
    wanted = expected(directory)
    printed = run(directory, "replay", "x", "--to", "-", "--end", "60").stdout.splitlines()
    assert [json.loads(line) for line in printed] == wanted[:60]
    run(directory, "replay", "x", "--to", f"stream:again@{tmp_path / 'other'}", "--speed", "max")
    with diskstream.open(directory, read_only=True, **SMALL) as store, diskstream.open(tmp_path / "other") as other:
        assert rows(other.stream("again")) == rows(store.stream("x"))


def test_a_backup_says_what_is_in_object_storage_and_so_not_in_it(directory: Path, tmp_path: Path) -> None:
    """It counted those entries, and nothing said that the place has to be kept with it."""
    with diskstream.open(directory, read_only=True, **SMALL) as store:
        cold = sum(each.live for each in segments_of(store.stream("x")) if each.where == STUB)
    said = run(directory, "backup", "create", str(tmp_path / "backups")).stdout
    assert cold > 50
    assert f"not in it: {cold:,} entries in object storage" in said
    told = json.loads(run(directory, "backup", "create", str(tmp_path / "backups"), "--json").stdout)
    assert told["cold_entries"] == cold
    assert told["cold_bytes"] > 0


def test_counts_ranges_and_verifications_reach_it(directory: Path) -> None:
    assert run(directory, "count", "x", "1", "50").stdout.strip() == "50"
    assert len(run(directory, "range", "x", "1", "50", "--json").stdout.splitlines()) == 50
    run(directory, "verify", "--cold")


def test_where_cold_storage_is_silent_an_export_ends_with_a_word_and_leaves_nothing(
    stream: Stream, door: Door, tmp_path: Path
) -> None:
    move_out(stream, door.url(tmp_path.name), keep_entries=40)
    stream._store.close()
    door.fault = lambda _: refusal(503, "SlowDown")
    for kind in ("jsonl", "parquet"):
        result = run(stream._store.path, "export", "x", "-o", str(tmp_path / f"x.{kind}"), code=1)
        assert "error:" in result.stderr
    result = run(stream._store.path, "replay", "x", "--to", f"stream:y@{tmp_path / 'other'}", "--speed", "max", code=1)
    assert "error:" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("x.", ".x"))] == []
