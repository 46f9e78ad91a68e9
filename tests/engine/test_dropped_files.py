"""The files of segments that are listed no more go, whoever dropped them and whoever was in the way."""

import errno
from pathlib import Path

import pytest

import diskstream
from diskstream import StorageError
from diskstream.engine import seal
from diskstream.engine.page import MAINTENANCE
from tests.engine.sample import SMALL, Sample, log_of
from tests.engine.stand_ins import Watched, failure


def sealed_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.seg"))


@pytest.mark.usefixtures("no_keepers")  # the one who compacts looks at the stream only at the end
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


@pytest.mark.usefixtures("no_keepers")  # whose failure would be no failure of the call
@pytest.mark.parametrize("kind", ["flush", "unlink", "sync_dir"])
def test_a_disk_that_fails_while_they_go_leaves_none_behind(tmp_path: Path, kind: str) -> None:
    """They were forgotten with the first failure, until a next recovery came upon them."""
    ill: list[bool] = []

    def step(each: str, path: Path) -> None:
        if ill and each == kind and path.suffix in ("", ".log", ".seg"):
            raise failure(path, each, errno.EIO)

    path = tmp_path / "s"
    with diskstream.open(path, **SMALL, files=Watched(step)) as store:
        stream = store.stream("x")
        Sample(store, "x").fill()
        stream.seal()
        log = log_of(store)
        assert len(sealed_files(path)) > 1
        stream.trim(maxlen=0)
        ill.append(True)
        with pytest.raises(StorageError):
            seal.reap(log)
        ill.clear()
        with diskstream.open(path, **SMALL) as other:  # which cures the stream where the flush has failed
            assert len(other.stream("x")) == 0
            seal.reap(log)
            assert sealed_files(path) == []
