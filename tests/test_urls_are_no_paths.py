"""What is meant for object storage, or another machine, does not become a folder of that name below the working one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import ArgumentError, compat
from diskstream.backups import find_backup, make_backup, restore
from diskstream.cli import main
from diskstream.exporting import ExportRequest, export_directory, export_file

REFUSED = "must be in a folder of this machine, not a URL"
URLS = ("s3://bucket/a", "s3:/bucket/a", "abfss://c@a.net/p", "redis://localhost:6379/0", "file:///tmp/a")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with diskstream.open("store") as made:
        made.stream("s").add({"n": 1})
    return tmp_path / "store"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("function", [diskstream.open, diskstream.verify, diskstream.repair, compat.Redis])
def test_a_store_is_not_at_a_url(store: Path, function: Callable[..., Any], url: str) -> None:
    with pytest.raises(ArgumentError, match=REFUSED):
        function(url)
    assert names(store.parent) == {"store"}


@pytest.mark.parametrize("url", URLS)
def test_neither_is_a_backup_or_an_export(store: Path, url: str) -> None:
    make_backup(store, Path("backups"))
    request = ExportRequest([b"s"], "jsonl")
    with diskstream.open(store) as opened:
        calls: list[Callable[[], Any]] = [
            lambda: make_backup(store, Path(url)),
            lambda: restore(find_backup(Path("backups")), Path(url)),
            lambda: export_file(opened, request, Path(url)),
            lambda: export_directory(opened, request, Path(url), rows_per_file=5),
        ]
        for call in calls:
            with pytest.raises(ArgumentError, match=REFUSED):
                call()
    assert names(store.parent) == {"store", "backups"}


@pytest.mark.parametrize(
    "words",
    [
        "add s a=1 --dir URL",
        "ls --dir URL",
        "serve --dir URL --port 0",
        "backup create URL --dir store",
        "backup ls URL",
        "export s --dir store -o URL",
        "export s --dir store -o URL --format csv --rows-per-file 5",
        "replay s --dir store --to stream:t@URL",
        "archive --from redis://localhost:1 --key s --to URL",
        "spark archive --dir store --archive URL",
    ],
)
def test_no_verb_takes_one_for_a_folder(store: Path, words: str) -> None:
    result = CliRunner().invoke(main, words.replace("URL", "s3://bucket/a").split())
    assert result.exit_code in (1, 2), result.output
    assert REFUSED in " ".join(result.stderr.split())
    assert names(store.parent) == {"store"}


@pytest.mark.parametrize("name", ["./s3:/bucket", "C:/data", "2026:/x", "s3/bucket"])
def test_a_folder_may_have_such_a_name(store: Path, name: str) -> None:
    with diskstream.open(name) as made:
        assert made.path == store.parent / name
