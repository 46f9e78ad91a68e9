"""What readers of a store that is open for reading only have fetched goes with the last of them."""

import json
import shutil
import tempfile
import threading
import uuid
from pathlib import Path

import pytest

from diskstream import Stream
from diskstream.cold import move_out
from diskstream.cold_folders import ReadersFolder
from diskstream.errors import StorageError
from diskstream.verifying import verify
from tests.cold.readers import read, read_in_forks
from tests.cold.world import opened, rows
from tests.engine.children import LIMIT_S, child


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, of children too."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def moved(stream: Stream, folder_place: str) -> Path:
    """A closed store all of whose sealed segments are away."""
    assert move_out(stream, folder_place, older_than_ms=0).segments
    stream._store.close()
    return stream._store.path


def left(above: Path) -> list[str]:
    return sorted(each.name for each in above.iterdir())


def test_what_readers_fetched_stays_until_the_last_of_them_closes(moved: Path, above: Path) -> None:
    with opened(moved, read_only=True) as first:
        before = rows(first.stream("x"))
        kept = sorted(path.name for path in above.glob("*/*.seg"))
        assert kept
        with opened(moved, read_only=True) as second:
            assert rows(second.stream("x")) == before
        assert sorted(path.name for path in above.glob("*/*.seg")) == kept
    assert left(above) == []


def test_a_check_of_what_is_away_leaves_nothing(moved: Path, above: Path) -> None:
    assert verify(moved, cold=True).ok
    assert left(above) == []


@pytest.mark.parametrize("end", ["at once", "in a thread"])
def test_a_process_that_ends_without_closing_leaves_nothing(moved: Path, above: Path, end: str) -> None:
    with child(read, moved, end) as process:
        assert int(process.hear())
        assert left(above)
        process.tell()
        assert process.wait() == 0
    assert left(above) == []


def test_what_a_killed_process_left_goes_with_the_next_reader_and_what_a_living_one_has_stays(
    moved: Path, above: Path, tmp_path: Path
) -> None:
    shutil.copytree(moved, tmp_path / "another")
    described = json.loads((moved / "store.json").read_text(encoding="utf-8"))
    described["uuid"] = str(uuid.uuid4())
    (tmp_path / "another" / "store.json").write_text(json.dumps(described), encoding="utf-8")
    with child(read, moved, "at once") as killed:
        killed.hear()
        killed.kill()
    of_killed = left(above)
    assert len(of_killed) == 1
    foreign = above / "diskstream-cold-of-somebody"
    foreign.touch()
    with child(read, tmp_path / "another", "at once") as living:
        living.hear()
        of_living = [name for name in left(above) if name not in (*of_killed, foreign.name)]
        assert left(above) == sorted([*of_living, foreign.name])
        assert len(of_living) == 1
        with opened(moved, read_only=True) as store:
            rows(store.stream("x"))
            assert left(above) == sorted([*of_killed, *of_living, foreign.name])
        assert left(above) == sorted([*of_living, foreign.name])
        assert list(above.glob("*/*.seg"))


def test_a_fork_takes_nothing_away_and_keeps_nothing(moved: Path, above: Path) -> None:
    with child(read_in_forks, moved) as process:
        process.hear()
        assert list(above.glob("*/*.seg"))  # though a fork has closed it
        process.tell()
        process.hear()
        assert left(above) == []  # though another one lives on
        process.tell()
        assert process.rest() == ["0", "0"]
        assert left(above) == []


def test_readers_that_come_and_go_at_once_all_have_a_folder(above: Path) -> None:
    """One that was the last removed the folder of one that had just found it."""
    missing: list[str] = []

    def come_and_go() -> None:
        for _ in range(200):
            folder = ReadersFolder()
            path = folder.path(lambda: "store")
            (path / "x").touch()
            if not path.is_dir():
                missing.append(str(path))
            folder.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert missing == []
    assert left(above) == []


def test_nowhere_to_fetch_to_is_an_error_of_ours(moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with opened(moved, read_only=True) as store, pytest.raises(StorageError, match="nowhere"):
        rows(store.stream("x"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    with opened(moved, read_only=True) as store, pytest.raises(StorageError, match="temporary files"):
        rows(store.stream("x"))
