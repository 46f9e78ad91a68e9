"""What is of the wrong kind is told so by the argument's name, before anything is read or written."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import diskstream
import diskstream.aio
from diskstream import ArgumentError, ArgumentTypeError, Store, Stream
from diskstream.repairing import check_repairable
from diskstream.verifying import bytes_to_verify


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("a").add({"n": "1"})
        yield store


@pytest.mark.parametrize("path", [b"store", "", "a\0b", None, 5])
@pytest.mark.parametrize("function", [diskstream.verify, diskstream.repair, bytes_to_verify, check_repairable])
def test_a_path_is_text(path: Any, function: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="the path of a store"):
        function(path)


def test_no_path_is_not_the_working_directory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.path)
    with pytest.raises(ArgumentError, match="the path of a store"):
        diskstream.verify("")


def test_a_path_that_the_locale_cannot_name_says_how_it_can(tmp_path: Path) -> None:
    """It was a UnicodeEncodeError, which is none of ours."""
    program = r"""
import diskstream
for use in (diskstream.open, diskstream.verify):
    try:
        use("gr\xf6\xdfe")
    except diskstream.ArgumentError as error:
        print(error)
"""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    plain["PYTHONPATH"] = str(Path(diskstream.__file__).parent.parent)
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **plain}, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.count("PYTHONUTF8=1") == len(done.stdout.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["a", b"a", None, 5])
def test_names_are_several(store: Store, given: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: diskstream.verify(store.path, streams=given),
        lambda: diskstream.repair(store.path, streams=given),
        lambda: bytes_to_verify(store.path, streams=given),
        lambda: store.lease(given),
    ]
    for call in calls:
        with pytest.raises(ArgumentTypeError, match="streams is several"):
            call()
    with pytest.raises(ArgumentTypeError, match="known_names is several"):
        diskstream.repair(store.path, known_names=given)


@pytest.mark.parametrize(("flag", "is_set"), [(1, True), ("yes", True), (0, False), (None, False)])
def test_what_a_flag_is_set_to_is_as_true_as_python_has_it(tmp_path: Path, flag: Any, is_set: bool) -> None:
    """Some went to the native log as they were, which named neither the argument nor the call."""
    with diskstream.open(tmp_path / "os", fsync="os") as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        calls: list[Callable[[], Any]] = [
            lambda: stream.add({"n": 1}, durable=flag),
            lambda: stream.add_many([{"n": 2}], durable=flag),
            lambda: stream.add_arrow(pa.record_batch({"n": ["3"]}), durable=flag),
        ]
        for add in calls:
            add()
            assert stream.info().durable is is_set
        assert len(group.consumer("c").read(noack=flag)) == len(calls)
        assert group.pending().total == (0 if is_set else len(calls))


def test_who_is_told_of_progress_is_a_function(store: Store) -> None:
    calls: list[Callable[..., Any]] = [
        lambda given: diskstream.verify(store.path, progress=given),
        lambda given: diskstream.repair(store.path, progress=given),
        lambda given: store.verify(progress=given),
        lambda given: store.seal(progress=given),
        lambda given: store.compact(progress=given),
    ]
    for call in calls:
        with pytest.raises(ArgumentTypeError, match="progress is a function"):
            call(5)
    with pytest.raises(ArgumentTypeError, match="on_sealed is a function"):
        store.seal(on_sealed=5)  # type: ignore[arg-type]  # refused: of a wrong kind
    assert store.stream("a").info().sealed_segments == 0


def test_a_uuid_is_text(store: Store) -> None:
    with pytest.raises(ArgumentTypeError, match="uuid is text"):
        diskstream.repair(store.path, uuid=5)  # type: ignore[arg-type]  # refused: of a wrong kind


@pytest.mark.parametrize("pattern", [0, False, {}, (), 5])
def test_a_pattern_is_text(store: Store, pattern: Any) -> None:
    """What Python takes for false was a pattern that no name matches."""
    with pytest.raises(ArgumentTypeError, match="a stream's name is str or bytes"):
        store.streams(pattern)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64])
def test_a_number_of_numpys_is_a_number(store: Store, kind: type[np.integer[Any]]) -> None:
    """They were counted with at their own width, which went over: pieces were of any size."""
    stream = store.stream("many")
    stream.add_many([{"n": n} for n in range(3000)])
    store.seal("many")
    stream.add_many([{"n": n} for n in range(3000)])
    given: Any = kind(200)
    assert stream.splits(max_entries=given) == stream.splits(max_entries=200)
    assert stream.id_further("-", given) == stream.id_further("-", 200)


def test_so_is_what_python_takes_for_one(store: Store) -> None:
    """It was a TypeError of a comparison."""

    class Five:
        def __index__(self) -> int:
            return 5

    given: Any = Five()
    assert len(store.stream("a").splits(max_entries=given)) == 1


@pytest.mark.parametrize("ttl_s", ["x", b"x", None, float("nan"), True, -1, pytest.param(1 << 2000, id="2^2000")])
def test_a_lease_ends_at_some_time(store: Store, ttl_s: Any) -> None:
    with pytest.raises(ArgumentError, match="ttl_s"):
        store.lease(["a"], ttl_s=ttl_s)
    assert not (store.path / "leases").exists()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("layout", None),
        ("duplicates", 5),
        ("exact", "yes"),
        ("metadata", None),
        ("times", 1),
        ("batch_rows", None),
        ("batch_rows", 1.5),
        ("batch_rows", True),
        ("columns", None),
        ("columns", 5),
        ("columns", "ab"),
        ("columns", ["ab"]),
        ("columns", [("n", "int64", "more")]),
        ("columns", {"n": 5}),
    ],
)
def test_how_to_scan_is_said_in_words_and_numbers(store: Store, name: str, given: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=name):
        next(store.stream("a").scan(**{name: given}))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rule", lambda stream: stream.preview_retention(None)),
        ("rule", lambda stream: stream.preview_retention({"max_entries": 5})),
        ("fields", lambda stream: stream.columns(fields=5)),
        ("fields", lambda stream: stream.to_arrow(fields=5)),
        ("max_entries", lambda stream: stream.splits(max_entries=None)),
        ("max_bytes", lambda stream: stream.splits(max_bytes="5")),
        ("max_bytes", lambda stream: stream.splits(max_bytes=True)),
        ("count", lambda stream: stream.id_further("-", None)),
        ("count", lambda stream: stream.id_further("-", True)),
        ("entries_added", lambda stream: stream.set_id("9-0", entries_added="5")),
        ("entries_added", lambda stream: stream.set_id("9-0", entries_added=True)),
        ("rows", lambda stream: stream.add_many(None)),
        ("rows", lambda stream: stream.add_many(5)),
        ("ids", lambda stream: stream.add_many([{"n": "1"}], ids=5)),
        ("commit", lambda stream: stream.add_many([{"n": "1"}], commit=("job", 1))),
        ("commit", lambda stream: stream.add_arrow(pa.RecordBatch.from_pydict({"n": [1]}), commit=5)),
        ("signals", lambda stream: next(stream.group("g", create=True).consumer("c").entries(signals=15))),
    ],
)
def test_what_a_stream_is_asked_is_named(store: Store, name: str, call: Callable[[Stream], object]) -> None:
    with pytest.raises(ArgumentTypeError, match=name):
        call(store.stream("a"))
    assert len(store.stream("a")) == 1


def test_what_is_no_commit_makes_no_stream(store: Store) -> None:
    with pytest.raises(ArgumentTypeError, match="commit is a Commit"):
        store.stream("new").note_commit(None)  # type: ignore[arg-type]  # refused: of a wrong kind
    assert store.streams() == [b"a"]


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: stream.read(block=True),
        lambda stream: stream.group("g").consumer("c").read(block=True),
        lambda stream: stream.wait_durable("0-1", timeout=True),
    ],
)
def test_that_one_waits_is_no_time_to_wait(store: Store, call: Callable[[Stream], object]) -> None:
    """It was a second: who meant for ever took that for the end."""
    with pytest.raises(ArgumentError, match="timeout is not an integer"):
        call(store.stream("a"))


@pytest.mark.parametrize("wrong", [{"block": "5"}, {"block": -1}, {"claim_ms": "60000"}, {"claim_ms": True}], ids=str)
def test_how_a_worker_waits_is_looked_at_before_it_is_given_anything(store: Store, wrong: dict[str, Any]) -> None:
    """It was told behind the backlog, which a worker may have for hours, and maybe never in a test."""
    worker = store.stream("a").group("g", start="0").consumer("c")
    assert len(worker.read()) == 1
    with pytest.raises(ArgumentError):
        next(worker.entries(**wrong))

    async def first() -> object:
        async with await diskstream.aio.open(store.path) as again:
            group = await again.stream("a").group("g", create=False)
            return await anext(group.consumer("c").entries(**wrong))

    with pytest.raises(ArgumentError):
        asyncio.run(first())
