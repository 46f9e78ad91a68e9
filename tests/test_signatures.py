"""What a type checker and an editor know: arguments of asyncio are those of the others, and options have types."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import diskstream
from diskstream import aio
from diskstream.commits import AddOptions, EntryOptions
from diskstream.options import OpenOptions, Options
from tests.test_docs import INNER

PAIRS = [
    (aio.Store, diskstream.Store),
    (aio.Stream, diskstream.Stream),
    (aio.Group, diskstream.Group),
    (aio.Consumer, diskstream.Consumer),
]
# What a task has in the place of it: it is cancelled.
ENDED_OTHERWISE = {("Store", "read_group"): {"stop"}, ("Consumer", "entries"): {"signals"}}
UNPACKED = {("Stream", "add"): EntryOptions, ("Stream", "add_many"): AddOptions}

# What one takes the others for, in a thread: columns, tables and scans, the audit, and what goes with them. `group`
# makes groups, `length` is `len`, and a consumer's task is cancelled.
LEFT_OUT = {
    "Stream": {"added_until", "audit", "audit_table", "columns", "count_from", "create_group", "id_further", "identity"}
    | {"scan", "splits", "to_arrow", "trimmed_to", "vitals", "written_to"},
    "Consumer": {"stop"},
}

METHODS = [
    pytest.param(ours, theirs, name, id=f"{ours.__name__}.{name}")
    for ours, theirs in PAIRS
    for name in sorted(vars(ours))
    if not name.startswith("_") and callable(getattr(ours, name)) and callable(getattr(theirs, name, None))
]


def arguments(method: Callable[..., Any]) -> dict[str, tuple[str, object]]:
    """Kind and default of each argument, by its name."""
    found = inspect.signature(method).parameters
    return {name: (each.kind.name, each.default) for name, each in found.items()}


@pytest.mark.parametrize(("ours", "theirs", "name"), METHODS)
def test_a_method_of_asyncio_takes_what_the_other_one_takes(ours: type, theirs: type, name: str) -> None:
    """Of some it said only that there are options: a misspelt one was found when it ran."""
    given, wanted = arguments(getattr(ours, name)), arguments(getattr(theirs, name))
    if (unpacked := UNPACKED.get((ours.__name__, name))) is not None:
        assert given.pop("options")[0] == "VAR_KEYWORD"
        assert {*given, *get_type_hints(unpacked)} == set(wanted)
        return
    for left_out in ENDED_OTHERWISE.get((ours.__name__, name), ()):
        del wanted[left_out]
    assert given == wanted


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_nothing_else_is_missing_of_asyncio(ours: type, theirs: type) -> None:
    """A rule could be set, and not previewed; a store could be sealed, and no stream."""
    public = {name for name in dir(theirs) if not name.startswith("_")} - INNER
    assert {name for name in public if not hasattr(ours, name)} == LEFT_OUT.get(ours.__name__, set())


def test_the_types_of_what_open_takes_are_those_of_the_options() -> None:
    assert get_type_hints(OpenOptions) == get_type_hints(Options)
    assert OpenOptions.__required_keys__ == frozenset()


def test_a_method_that_is_that_of_another_class_says_what_it_does_and_is_awaited(tmp_path: Path) -> None:
    assert "XTRIM" in (aio.Stream.trim.__doc__ or "")

    async def trimmed() -> int:
        async with await aio.open(tmp_path / "s", fsync="os") as store:
            stream = store.stream("x")
            await stream.add_many([{"n": n} for n in range(5)])
            with pytest.raises(diskstream.ArgumentError, match="trimming strategy"):
                await stream.trim()
            assert (await store.verify(cold=True)).ok
            return await stream.trim(maxlen=2)

    assert asyncio.run(trimmed()) == 3


def test_what_looks_ahead_and_keeps_small_is_awaited_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync="os") as store:
            stream = store.stream("x")
            assert not await stream.exists()
            first, last = await stream.add_many([{"n": n} for n in range(2)])
            assert await stream.exists()
            assert await stream.last_id() == last
            assert (await stream.digest(end=first)).entries == 1
            assert (await stream.preview_retention(diskstream.RetentionRule(max_entries=1))).removed == 1
            group = await stream.group("g", start="0")
            assert await group.advance(first)
            await stream.record_idempotent("shop", "17", first)
            assert await stream.add({"n": 0}, producer="shop", message_id="17") == first
            lease = await store.lease([stream.name])
            assert await stream.seal() == 1
            await stream.compact()
            await store.sync()
            assert await stream.durable_id() == last
            with diskstream.open(lease, read_only=True) as leased:
                assert len(leased.stream("x")) == 2
            assert not store.closed
        assert store.closed

    asyncio.run(run())
