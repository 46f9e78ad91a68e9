"""That counts in what the command says agree with their nouns: `1 entry`, not `1 entries`."""

import re
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import export_files, import_files, main
from diskstream.plurals import number_of, rate_of

_MISMATCHED = re.compile(
    r"(?<![\d,.])1 (?:\w+ ){0,2}(?:entries|streams|segments|files|groups|consumers|rows|bytes|faults)"
)


@pytest.mark.parametrize(
    ("count", "one", "many", "said"),
    [
        (0, "stream", None, "0 streams"),
        (1, "stream", None, "1 stream"),
        (2000, "stream", None, "2,000 streams"),
        (1, "pending entry", None, "1 pending entry"),
        (2, "pending entry", None, "2 pending entries"),
        (1, "entry was", "entries were", "1 entry was"),
        (3, "entry was", "entries were", "3 entries were"),
    ],
)
def test_a_count_and_what_it_counts_agree(count: int, one: str, many: str | None, said: str) -> None:
    assert number_of(count, one, many) == said


@pytest.mark.parametrize(
    ("count", "seconds", "said"),
    [(3, 2.5, "1 entry/s"), (1, 0.0004, "2,500 entries/s"), (1, 3, "0 entries/s"), (2, 0.0, "2,000,000 entries/s")],
)
def test_a_rate_and_what_it_counts_agree(count: int, seconds: float, said: str) -> None:
    assert rate_of(count, seconds, "entry") == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("verify --stream s", "1 stream, 2 segments, 1 entry, "),
        ("verify --stream other", "1 stream, 1 segment, 1 entry, "),
        ("rm s --dry-run", "would remove stream s: 1 entry, 1 group, "),
        ("trim s --maxlen 0 --dry-run", "would drop 1 of 1 entry"),
        ("rename s other --replace --dry-run", "in place of one with 1 entry"),
        ("group destroy s g --dry-run", "1 consumer, 1 pending entry"),
        ("consumer rm s g c --dry-run", "1 pending entry"),
        ("export s -o @/s.jsonl", "1 entry in 1 file, "),
        ("import @/s.csv --stream new", "1 row with 1 byte of values"),
        ("import @/bad.jsonl --stream new --batch 1", "1 row before it was imported"),
        ("backup @/kept --stream s", "1 stream, 1 entry, "),
    ],
)
def test_one_of_each_is_told_as_one(tmp_path: Path, words: str, said: str) -> None:
    with diskstream.open(tmp_path / "store", seal="manual") as store:
        for name in ("s", "other"):
            store.stream(name).add({"a": "1"})
        store.stream("s").group("g", start="0").consumer("c").read(count=1)
        store.seal("s")
    (tmp_path / "s.csv").write_text("a\n1\n")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\nno\n')
    given = [word.replace("@", str(tmp_path)) for word in words.split()]
    result = CliRunner().invoke(main, given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
    assert said in result.output
    assert not _MISMATCHED.search(result.output)


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (export_files, "export s -o @/s.jsonl", "1.00 s, 1 entry/s"),
        (import_files, "import @/s.csv --stream new", "in 1.00 s, 1 row/s"),
    ],
)
def test_one_in_a_second_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, words: str, said: str
) -> None:
    """Of one entry on a busy machine it said `1 entries/s`."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"a": "1"})
    (tmp_path / "s.csv").write_text("a\n1\n")
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=count().__next__))
    given = [word.replace("@", str(tmp_path)) for word in words.split()]
    result = CliRunner().invoke(main, given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
    assert said in result.output
