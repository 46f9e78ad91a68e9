"""A disk, or a volume of a container, that is a store's alone: what its file system put there is in nobody's way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.errors import NotAStoreError, StorageError
from tests.engine.mounts import mounted, small_disk


def test_a_store_is_made_at_the_top_of_a_new_file_system(tmp_path: Path) -> None:
    """A new ext4 has `lost+found`: a volume mounted at /data, as the image has it, was refused."""
    (tmp_path / "lost+found").mkdir(mode=0o700)
    with diskstream.open(tmp_path) as store:
        store.stream("s").add({"a": 1})
    said = CliRunner().invoke(main, ["verify", "--dir", str(tmp_path)])
    assert (said.exit_code, "lost+found" in said.output) == (0, False)
    assert CliRunner().invoke(main, ["repair", "--force", "--dir", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "lost+found").is_dir()


def test_where_somebody_else_keeps_something_none_is_made(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "letters").mkdir()
    with pytest.raises(NotAStoreError, match=r"something else \(letters\)"):
        diskstream.open(tmp_path)


@pytest.mark.parametrize("change", [lambda store: store.delete("s"), lambda store: store.rename("s", "t")])
def test_a_stream_in_a_layer_of_an_image_says_where_it_can_be_removed_and_renamed(
    tmp_path: Path, change: Callable[[diskstream.Store], object]
) -> None:
    """It was an invalid cross-device link, of two names in one directory. All else goes on there."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        for each in ("lower", "upper", "work"):
            (disk / each).mkdir()
        with diskstream.open(disk / "lower" / "store") as store:
            store.stream("s").add({"a": 1})
        layers = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work,redirect_dir=off"
        with (
            mounted(tmp_path / "merged", "-t", "overlay", "-o", layers, "overlay") as merged,
            diskstream.open(merged / "store") as store,
        ):
            with pytest.raises(StorageError, match="could not rename") as told:
                change(store)
            assert "copy the store to a volume" in str(told.value.hint)
            store.stream("s").add({"a": 2})
            assert len(store.stream("s")) == 2
            assert store.verify().problems == []
