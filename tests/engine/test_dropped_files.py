"""The files of segments that are listed no more go, whoever dropped them and whoever was in the way."""

from pathlib import Path

import diskstream
from diskstream.engine.page import MAINTENANCE
from tests.engine.sample import SMALL, Sample, log_of


def sealed_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.seg"))


def test_who_went_past_a_trim_and_two_rolls_at_once_removes_what_was_trimmed(tmp_path: Path) -> None:
    # Found by the power part: one trims and closes while another compacts, and so has the lock that removing needs.
    path = tmp_path / "s"
    with diskstream.open(path, **SMALL) as compacting:
        with diskstream.open(path, **SMALL) as trimming:
            Sample(trimming, "x").fill()
            stream = trimming.stream("x")
            stream.seal()
            assert len(sealed_files(path)) > 1
            assert len(compacting.stream("x")) == len(stream)
            with log_of(compacting).ctl.locked(MAINTENANCE):
                stream.trim(maxlen=0)
                before = stream.info().segments
                while stream.info().segments < before + 3:
                    stream.add({"pad": "x" * 500})
                log_of(trimming).close()  # as where more streams are in use than may be open
        assert len(sealed_files(path)) > 1
        assert compacting.stream("x").exists()
    assert sealed_files(path) == []
    (path / "ctl").unlink()  # as in another boot: whatever is left over is found now, and told
    for page in path.glob("streams/*/ctl"):
        page.unlink()
    with diskstream.open(path, **SMALL) as again:
        assert len(again.stream("x")) > 0
        assert again.recoveries == []
