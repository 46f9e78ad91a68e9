"""Damaged streams that others go on with while a backup takes their files as they are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream.backups import Made, make_backup
from diskstream.engine import lease as module
from diskstream.store_files import Files
from diskstream.system_calls import children


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    """The first segment of `s` is missing, the second is sealed; two that were rolled are not sealed yet."""
    with diskstream.open(tmp_path / "store", seal="manual", segment_bytes=8192) as opened:
        stream = opened.stream("s")
        for _ in range(2):
            stream.add_many([{"pad": "." * 90}] * 200)
            stream.seal()
        for _ in range(3):
            stream.add_many([{"pad": "." * 90}] * 60)
        (tmp_path / "store" / "streams" / "s" / "00000001.seg").unlink()
        assert len(list((tmp_path / "store" / "streams" / "s").glob("*.log"))) > 1
        yield opened


def backup(
    store: diskstream.Store, target: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> Made:
    """Makes one; `meanwhile` happens when the files of the damaged stream were listed, and none is held yet."""
    link_damaged = module.link_damaged
    still_to_come: list[Callable[[], object]] = []

    def damaged(directory: Path, target: Path, files: Files) -> None:
        if not looks:
            still_to_come.append(meanwhile)
        looks.append(directory)
        link_damaged(directory, target, files)

    def listed(folder: Path) -> list[Path]:
        found = children(folder)
        while still_to_come:
            still_to_come.pop()()
        return found

    looks: list[Path] = []
    monkeypatch.setattr(module, "link_damaged", damaged)
    monkeypatch.setattr(module, "children", listed)
    return make_backup(store.path, target)


def test_what_is_sealed_meanwhile_is_taken_as_it_became(
    store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backup(store, tmp_path / "backups", monkeypatch, lambda: store.seal("s"))
    assert [stream.name for stream in made.damaged] == ["s"]
    kept = {path.name for path in (made.path / "streams" / "s").iterdir()}
    assert kept >= {path.name for path in (store.path / "streams" / "s").glob("0*")}


def test_one_that_is_renamed_meanwhile_is_kept_by_its_new_name(
    store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backup(store, tmp_path / "backups", monkeypatch, lambda: store.rename("s", "t"))
    assert [stream.name for stream in made.damaged] == ["t"]
