"""Under `always`, what is written but not flushed yet is not visible; trims and counters must not be misled by it."""

from pathlib import Path

import diskstream


def test_an_approximate_trim_by_id_within_an_add_counts_what_the_add_brought(tmp_path: Path) -> None:
    """The trim was planned with the visible length, which lacks the entries just added, and took as many too many."""
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(300)], ids=[(number, 0) for number in range(1, 301)])
        added = stream.add_many(
            [{"n": number} for number in range(100)],
            ids=[(number, 0) for number in range(301, 401)],
            minid=(151, 0),
            approximate=True,
        )
        assert len(added) == 100
        assert [entry.id.ms for entry in stream.range()] == list(range(101, 401))
