"""A key of another type in the place of a stream, on a disk that refuses a step: both keys are as they were."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from diskstream import StorageError
from diskstream.commands.keyspace import Keyspace
from tests.engine.stand_ins import Watched, failure

CHANGES: dict[str, Callable[[Keyspace], object]] = {
    "SET": lambda keyspace: keyspace.put_values(0, b"x", "string", (b"v" * 100_000,)),
    "RENAME": lambda keyspace: keyspace.rename(0, b"s", b"x"),
    "COPY": lambda keyspace: keyspace.copy(0, b"s", 0, b"x", replace=True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize(("kind", "at"), [("extend", "keys"), ("rename", ".deleted-")])
def test_what_is_refused_leaves_the_stream(
    tmp_path: Path, change: Callable[[Keyspace], object], kind: str, at: str
) -> None:
    refused: list[Path] = []

    def step(what: str, path: Path) -> None:
        if armed and what == kind and at in str(path.relative_to(tmp_path)):
            refused.append(path)
            raise failure(path, kind, errno.ENOSPC)

    armed = False
    with Keyspace(tmp_path, files=Watched(step), seal="manual") as keyspace:
        keyspace.stream(0, b"x").add({"n": 1})
        keyspace.put_values(0, b"s", "string", (b"v" * 100_000,))
        armed = True
        with pytest.raises(StorageError):
            change(keyspace)
        armed = False
        assert refused
    with Keyspace(tmp_path) as keyspace:
        assert keyspace.kind(0, b"x") == "stream"
        assert [entry.fields for entry in keyspace.stream(0, b"x").range()] == [{b"n": b"1"}]
        assert keyspace.held(0, b"s") == ("string", (b"v" * 100_000,))
        change(keyspace)
        assert keyspace.kind(0, b"x") == "string"


@pytest.mark.parametrize("name", ["ctl", "00000001.log", ".deleted-"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_stream_whose_files_the_disk_does_not_let_go_of_is_gone_and_what_replaces_it_is_there(
    tmp_path: Path, change: Callable[[Keyspace], object], name: str
) -> None:
    """SET, say, was refused, and taken back, when the stream was gone: neither was there."""
    kept: list[Path] = []

    def step(what: str, path: Path) -> None:
        if what in ("unlink", "rmdir") and ".deleted-" in str(path) and path.name.startswith(name):
            kept.append(path)
            raise failure(path, what, errno.EIO)

    with Keyspace(tmp_path, files=Watched(step), seal="manual") as keyspace:
        keyspace.stream(0, b"x").add({"n": 1})
        keyspace.put_values(0, b"s", "string", (b"v",))
        change(keyspace)
        assert kept
        assert keyspace.kind(0, b"x") == "string"
        for key in (b"y", b"z"):
            keyspace.stream(0, key).add({"n": 1})
            assert keyspace.delete(0, key)
        keyspace.stream(0, b"y").add({"n": 1})
        keyspace.flush(0)
        assert keyspace.names(0) == []
    with Keyspace(tmp_path) as keyspace:
        assert keyspace.names(0) == []
        assert list((tmp_path / "streams").iterdir()) == []


REFUSED: dict[str, Callable[[Keyspace], object]] = {
    "RENAME": lambda keyspace: keyspace.rename(0, b"y", b"x"),
    "COPY": lambda keyspace: keyspace.copy(0, b"y", 0, b"x", replace=True),
    "DEL": lambda keyspace: keyspace.delete(0, b"x"),
    "FLUSHDB": lambda keyspace: keyspace.flush(0),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_leaves_the_time_of_expiry(tmp_path: Path, change: Callable[[Keyspace], object]) -> None:
    """Without it a key that was to be replaced or removed, and was not, stayed for ever."""

    def step(what: str, path: Path) -> None:
        if armed and what == "rename" and path.name.startswith((".deleted-", ".replaced-")):
            raise failure(path, what, errno.EIO)

    armed = False
    with Keyspace(tmp_path, files=Watched(step), seal="manual") as keyspace:
        for key in (b"x", b"y"):
            keyspace.stream(0, key).add({"n": key})
            assert keyspace.set_expiry(0, key, keyspace.now_ms() + 100_000 + len(key))
        before = [keyspace.expires_at(0, key) for key in (b"x", b"y")]
        armed = True
        with pytest.raises(StorageError):
            change(keyspace)
        armed = False
        assert [keyspace.expires_at(0, key) for key in (b"x", b"y")] == before
        change(keyspace)
