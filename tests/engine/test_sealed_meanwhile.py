"""A segment that is sealed between the look for its packed file and the look for its log is found all the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store
from diskstream.engine import segment, verify
from diskstream.engine.files import size_of
from tests.engine.sample import SMALL, log_of

COUNT = 200


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with diskstream.open(tmp_path / "s", **SMALL) as opened:
        opened.stream("x").add_many([{"n": number, "pad": "." * 60} for number in range(COUNT)])
        log_of(opened).roll()
        yield opened


@pytest.fixture
def sealed_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Another opening seals the stream when a packed file was looked for and not found; the list says how much."""
    done: list[int] = []

    def then_seal(look: Callable[..., Any]) -> Callable[..., Any]:
        def found(*args: Any, **options: Any) -> Any:
            sealed = look(*args, **options)
            if sealed is None and not done:
                done.append(0)
                with diskstream.open(tmp_path / "s", **SMALL) as other:
                    done[0] = other.seal("x")
            return sealed

        return found

    monkeypatch.setattr(segment, "open_sealed", then_seal(segment.open_sealed))
    monkeypatch.setattr(verify, "open_sealed", segment.open_sealed)
    return done


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda stream: [int(entry["n"]) for entry in stream.range()], id="range"),
        pytest.param(lambda stream: [int(entry["n"]) for entry in stream.revrange()][::-1], id="revrange"),
        pytest.param(
            lambda stream: [int(n) for batch in stream.scan(layout="fields") for n in _numbers(batch)], id="scan"
        ),
    ],
)
def test_readers_see_all(store: Store, sealed_in_between: list[int], read: Callable[[Any], list[int]]) -> None:
    with diskstream.open(store.path, **SMALL, read_only=True) as looking:
        assert read(looking.stream("x")) == list(range(COUNT))
    assert sealed_in_between[0] > 0


def _numbers(batch: Any) -> list[bytes]:
    return [next(pair["value"] for pair in fields if pair["name"] == b"n") for fields in batch["fields"].to_pylist()]


def test_verify_reads_all_and_finds_no_fault(store: Store, sealed_in_between: list[int]) -> None:
    with diskstream.open(store.path, **SMALL, read_only=True) as looking:
        report = looking.verify()
    assert (report.problems, report.entries) == ([], COUNT)
    assert sealed_in_between[0] > 0


def test_verify_counts_a_log_that_goes_while_it_reads(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is counted; the bytes of a file that is gone are none."""
    sealed: list[int] = []

    def after_sealing(path: Path) -> int:
        if not sealed:
            with diskstream.open(tmp_path / "s", **SMALL) as other:
                sealed.append(other.seal("x"))
        return size_of(path)

    monkeypatch.setattr(verify, "size_of", after_sealing)
    with diskstream.open(store.path, **SMALL, read_only=True) as looking:
        report = looking.verify()
    assert (report.problems, report.entries) == ([], COUNT)
    assert sealed[0] > 0


def test_a_segment_that_is_compacted_while_others_are_verified_is_not_missing(tmp_path: Path) -> None:
    """Its next generation has its number: the old one was looked for, and reported."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for _ in range(3):
            stream.add_many([{"n": number, "pad": "." * 60} for number in range(COUNT)])
            store.seal("x")
        stream.delete(*[entry.id for entry in stream.range() if int(entry["n"]) % 2])
        compacted: list[int] = []

        def compact(_: int, __: int) -> None:
            if not compacted:
                with diskstream.open(tmp_path / "s", **{**SMALL, "segment_bytes": 8 << 10}) as other:
                    compacted.append(other.compact("x")[0].entries_dropped)

        report = store.verify(progress=compact)
        assert compacted[0] > 0
        assert report.problems == []
        assert report.entries >= len(stream)
