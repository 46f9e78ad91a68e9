"""The room that a view takes: address space, where that is limited, and the file, where somebody was killed."""

import errno
import os
from pathlib import Path

import lmdb
import pytest

import diskstream
from diskstream import DiskFullError
from diskstream.engine.state import _WRITES_BETWEEN_LOOKS, open_view
from diskstream.engine.view_map import as_ours
from tests.engine import view_users
from tests.engine.children import child
from tests.engine.mounts import small_disk
from tests.engine.sample import SMALL


def test_a_process_with_little_address_space_has_groups_too(tmp_path: Path) -> None:
    """With less than 64 GiB (`ulimit -v`) nothing that was pending could be looked at or acknowledged."""
    with child(view_users.deliver, tmp_path / "s") as process:
        assert process.rest() == [str(view_users.PENDING), "10", "True"]


def test_a_view_that_finds_no_address_space_to_grow_says_so_and_is_used_on(tmp_path: Path) -> None:
    """LMDB has let go of its map by then, and in that process the view could not be used any more."""
    with child(view_users.grow, tmp_path) as process:
        said = process.rest()
        assert process.wait() == 0
    assert "finds no address space" in said[0]
    assert "ulimit -v" in said[1]
    assert said[2:] == ["True", "True"]


def test_pages_that_were_freed_are_used_anew_though_somebody_was_killed_while_he_looked(tmp_path: Path) -> None:
    """The file grew by each write, until somebody opened the view anew."""
    view = open_view(tmp_path / "view")

    def write() -> int:
        for _ in range(2 * _WRITES_BETWEEN_LOOKS):
            view.write(lambda txn: txn.put(b"key", bytes(20_000)))
        return (tmp_path / "view" / "data.mdb").stat().st_size

    write()
    with child(view_users.die_within, tmp_path) as process:
        assert process.hear() == "looks"
        process.process.wait()
    assert write() == write()
    view.close()


def test_a_store_that_is_open_by_two_paths_has_one_view(tmp_path: Path) -> None:
    """A mount, or a store that was moved while it was open: LMDB opens nothing twice, and refused the second."""
    with diskstream.open(tmp_path / "s", **{**SMALL, "pending_rows": 1}) as store:
        stream = store.stream("x")
        stream.add_many([{"n": "x"}] * 50)
        group = stream.group("g", start="0")
        group.consumer("c").read(count=30)
        store.path.rename(tmp_path / "moved")
        with diskstream.open(tmp_path / "moved", **{**SMALL, "pending_rows": 1}) as again:
            assert again._view is store._view
            other = again.stream("x").group("g", create=False)
            assert len(other.pending_range(count=50)) == 30
            other.consumer("c").read(count=10)
            assert len(group.pending_range(count=50)) == 40


def test_a_view_that_is_opened_first_on_a_full_disk_does_not_end_the_process(tmp_path: Path) -> None:
    """LMDB stored into a hole of a file that it maps, where some blocks were left for its first pages and no more."""
    with small_disk(tmp_path / "disk") as disk, child(view_users.look_on_a_full_disk, disk) as process:
        said = process.rest()
        assert process.wait() == 0
    assert len(said) == 32
    assert set(said[1::2]) == {str(view_users.PENDING)}
    assert set(said[::2]) <= {str(view_users.PENDING), "full"}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_view_without_room_is_a_full_disk(tmp_path: Path, code: int) -> None:
    assert isinstance(as_ours(tmp_path, lmdb.Error(f"{tmp_path}: {os.strerror(code)}")), DiskFullError)
