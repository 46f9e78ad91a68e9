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

PAIRS = [
    (aio.Store, diskstream.Store),
    (aio.Stream, diskstream.Stream),
    (aio.Group, diskstream.Group),
    (aio.Consumer, diskstream.Consumer),
]
# What a task has in the place of it: it is cancelled.
ENDED_OTHERWISE = {("Store", "read_group"): {"stop"}, ("Consumer", "entries"): {"signals"}}
UNPACKED = {("Stream", "add"): EntryOptions, ("Stream", "add_many"): AddOptions}

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
