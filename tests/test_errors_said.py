"""What the methods of a store, its streams, groups and consumers raise is what their docstrings say.

Of some it was only found by meeting it: that there is no group, above all. What any of them may raise stands in the
docstring of `Store`, the rest with each method, or with the one that it names: "see `Group.nack`".
"""

import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import diskstream
from diskstream import ArgumentError, ClosedError, Commit, DiskstreamError, ReadOnlyError, RetentionRule
from tests.test_docs import INNER

KINDS = [diskstream.Store, diskstream.Stream, diskstream.Group, diskstream.Consumer]
ENDS = {"close", "closed", "stop"}


def given(name: str) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """What those are given that cannot be called with nothing; of a store, with the name of a stream."""
    return {
        "Store.delete": ((name,), {}),
        "Store.exists": ((name,), {}),
        "Store.lease": (([name],), {}),
        "Store.read": (({name: "0"},), {}),
        "Store.read_group": (("g", "c", {name: ">"}), {}),
        "Store.rename": ((name, "y"), {}),
        "Store.seal": ((name,), {}),
        "Store.compact": ((name,), {}),
        "Store.stream": ((name,), {}),
        "Stream.add": (({"n": 1},), {}),
        "Stream.add_arrow": ((pa.record_batch({"n": ["1"]}),), {}),
        "Stream.add_many": (([{"n": 1}],), {}),
        "Stream.added_until": (("3-0",), {}),
        "Stream.committed": ((b"w",), {}),
        "Stream.configure_idempotence": ((), {"duration_s": 5}),
        "Stream.count_from": (("1-0",), {}),
        "Stream.create_group": (("other",), {}),
        "Stream.delete": (("1-1",), {}),
        "Stream.delete_entries": (("1-1",), {}),
        "Stream.get": (("1-1",), {}),
        "Stream.group": (("other",), {}),
        "Stream.id_further": (("-", 1), {}),
        "Stream.note_commit": ((Commit(b"w", 1),), {}),
        "Stream.preview_retention": ((RetentionRule(max_entries=1),), {}),
        "Stream.record_idempotent": (("p", "m", "1-1"), {}),
        "Stream.set_id": (("9-9",), {}),
        "Stream.set_retention": ((), {"max_entries": 4}),
        "Stream.tail": ((), {"block": 0.001}),
        "Stream.trim": ((), {"maxlen": 1}),
        "Stream.wait_durable": (("1-1", 0.001), {}),
        "Group.ack": (("1-1",), {}),
        "Group.ack_delete": (("1-1",), {}),
        "Group.advance": (("3-3",), {}),
        "Group.consumer": (("c",), {}),
        "Group.create_consumer": (("d",), {}),
        "Group.delete_consumer": (("c",), {}),
        "Group.nack": (("1-1",), {}),
        "Group.set_id": (("0",), {}),
        "Consumer.ack": (("1-1",), {}),
        "Consumer.autoclaim": ((0,), {}),
        "Consumer.autoclaim_ids": ((0,), {}),
        "Consumer.claim": (("1-1",), {}),
        "Consumer.claim_ids": (("1-1",), {}),
        "Consumer.entries": ((), {"block": None}),
        "Consumer.nack": (("1-1",), {}),
    }


METHODS = [(kind, name) for kind in KINDS for name in sorted(set(dir(kind)) - INNER - ENDS) if not name.startswith("_")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        yield store


def call(store: diskstream.Store, stream_name: str, kind: type, method: str, **changed: Any) -> None:
    """Calls a method of the store, or of that stream, its group "g" and a consumer, and takes all that it gives."""
    stream = diskstream.Stream(store, stream_name.encode())
    group = diskstream.Group(stream, b"g")
    found = getattr(dict(zip(KINDS, [store, stream, group, group.consumer("c")], strict=True))[kind], method)
    if callable(found):
        args, keywords = given(stream_name).get(f"{kind.__name__}.{method}", ((), {}))
        bound = inspect.signature(found).bind(*args, **keywords)
        bound.arguments.update(changed)
        found = found(*bound.args, **bound.kwargs)
    if isinstance(found, Iterator):
        list(itertools.islice(found, 10))


def met(store: diskstream.Store, *, are_there: bool = False) -> Iterator[tuple[type, str, DiskstreamError]]:
    """Each method that fails with what it meets, called on a stream of its own, which has no group; or has not been."""
    for number, (kind, method) in enumerate(METHODS):
        if are_there:
            store.stream(f"s{number}").add_many([{"n": n} for n in range(3)], ids=[(n, 1) for n in range(1, 4)])
        try:
            call(store, f"s{number}", kind, method)
        except DiskstreamError as error:
            yield kind, method, error


def said(kind: type, method: str) -> set[str]:
    """The errors that the docstring of a method names, and those of the methods that it sends to."""
    text = inspect.getdoc(getattr(kind, method)) or ""
    named = set(re.findall(r"\w+Error\b", text))
    for other, its_method in re.findall(r"see `(Store|Stream|Group|Consumer)\.(\w+)`", text):
        named |= said(getattr(diskstream, other), its_method)
    return named


@pytest.mark.parametrize("are_there", [False, True], ids=["no stream", "no group"])
def test_what_misses_a_stream_or_a_group_says_so(store: diskstream.Store, are_there: bool) -> None:
    failed = list(met(store, are_there=are_there))
    assert len(failed) > 10
    silent = [
        f"{kind.__name__}.{method}: {type(error).__name__}"
        for kind, method, error in failed
        if not ({each.__name__ for each in type(error).__mro__} - {"DiskstreamError"}) & said(kind, method)
    ]
    assert silent == []


def test_what_any_method_may_raise_stands_with_the_store(store: diskstream.Store) -> None:
    named = set(re.findall(r"\w+Error\b", diskstream.Store.__doc__ or ""))
    assert {"ArgumentError", "ClosedError", "CorruptionError", "ReadOnlyError", "StorageError"} <= named
    store.close()
    assert {type(error) for _, _, error in met(store)} == {ClosedError}
    with diskstream.open(store.path, read_only=True) as looked_at:
        refused = {(kind, method): type(error) for kind, method, error in met(looked_at)}
    assert refused[diskstream.Stream, "add"] is refused[diskstream.Store, "delete"] is ReadOnlyError


# What is only asked whether it is true, as Python has it, may be anything.
FLAGS = {"ack", "approximate", "cold", "create", "damaged", "dry_run", "durable", "exist_ok", "force", "mkstream"}
FLAGS |= {"noack", "nomkstream", "on_trim", "replace", "strict", "tail"}


def test_what_is_of_the_wrong_kind_is_told_as_an_argument(store: diskstream.Store) -> None:
    others = []
    for number, (kind, method) in enumerate(METHODS):
        stream = store.stream(f"s{number}")
        stream.add_many([{"n": n} for n in range(3)])
        stream.group("g", start="0")
        found = getattr(kind, method)
        for argument, each in inspect.signature(found).parameters.items() if callable(found) else ():
            if argument in {"self", *FLAGS}:
                continue
            wrong = (object(),) if each.kind is each.VAR_POSITIONAL else object()
            try:
                call(store, f"s{number}", kind, method, **{argument: wrong})
            except ArgumentError:
                pass
            except Exception as error:  # noqa: BLE001  # whichever it is, it is the wrong one
                others.append(f"{kind.__name__}.{method}({argument}=): {error!r}")
    assert others == []
