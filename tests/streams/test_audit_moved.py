"""The audit of a stream that is renamed or replaced just as its files are listed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream.engine import audit as module
from diskstream.engine.looks import names_in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    """What the group of `s` did is in the audit of its first segment; that of `other` was made in the second one."""
    with diskstream.open(tmp_path / "store", seal="manual") as opened:
        for name in ("s", "other"):
            opened.stream(name).add({"n": "1"}, "1-0")
        opened.stream("s").create_group("first", "0")
        for stream in opened:
            stream.seal()
        opened.stream("other").create_group("second", "0")
        yield opened


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Does something once, before the files of a stream are listed."""
    still_to_come = [do]

    def listed(folder: Path) -> list[str]:
        while still_to_come:
            still_to_come.pop()()
        return list(names_in(folder))

    monkeypatch.setattr(module, "names_in", listed)


def test_nothing_is_told_of_a_name_that_is_gone(store: diskstream.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: store.rename("s", "t"))
    assert list(store.stream("s").audit()) == []
    assert [record.group for record in store.stream("t").audit()] == [b"first"]


def test_of_a_name_that_another_stream_took_the_others_is_told(
    store: diskstream.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace() -> None:
        store.rename("s", "t")
        store.rename("other", "s")

    meanwhile(monkeypatch, replace)
    assert [record.group for record in store.stream("s").audit()] == [b"second"]
