"""A disk, or a volume of a container, that is a store's alone: what its file system put there is in nobody's way."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.errors import NotAStoreError


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
