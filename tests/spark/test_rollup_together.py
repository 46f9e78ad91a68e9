"""Two runs of the job `rollup` that add windows to one stream at the same time."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ChangedError, EntryID
from diskstream.stream import Stream

pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from diskstream.spark.jobs import rollup
from diskstream.spark.jobs.rollup_settings import Settings
from tests.spark.archives import fill, no_spark

__all__ = ["no_spark"]


def test_the_slower_run_says_what_happened_and_the_next_one_finds_all_windows(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "store", "s", [(f"{1000 * n}-0", {"v": n}) for n in range(1, 9)])
    settings = Settings(str(tmp_path / "store"), (b"s",), window_ms=1000, fields=("v",), to_stream=b"windows")
    last_id = Stream.last_id

    def passed(stream: Stream) -> EntryID:
        found = last_id(stream)
        if stream.name == b"windows":
            monkeypatch.setattr(Stream, "last_id", last_id)
            assert rollup.run(no_spark, settings).added == 8
        return found

    with diskstream.open(tmp_path / "store") as store:
        store.stream("windows").group("readers")  # so that it is there
    monkeypatch.setattr(Stream, "last_id", passed)
    with pytest.raises(ChangedError, match="stream windows: others added to it meanwhile") as told:
        rollup.run(no_spark, settings)
    assert told.value.hint == "run this again: windows that are there are passed over"
    again = rollup.run(no_spark, settings)
    assert (again.added, again.skipped) == (0, 8)
