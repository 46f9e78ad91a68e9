"""An S3 server for all tests of the folder, and a stream with many sealed segments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import Stream, object_address, objects
from tests.cold.s3_server import Door, door_to, place_at, s3_server
from tests.cold.world import SMALL, filled


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", "a-secret-that-is-nowhere")):
            patch.setenv(name, value)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with s3_server() as port:
            yield port


@pytest.fixture
def door(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """A door to the S3 server. Who finds it silent gives up soon."""
    monkeypatch.setattr(object_address, "_SILENCE_S", 1.0)
    monkeypatch.setattr(object_address, "_ATTEMPTS", 1)
    monkeypatch.setattr(objects, "_PAUSE_S", 0.0)
    monkeypatch.setattr(objects, "_PATIENCE_S", 0.9)
    with door_to(s3_port) as opened:
        yield opened


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty place: a folder, and one in S3."""
    if request.param == "file":
        return f"file://{tmp_path}/place"
    return place_at(request.getfixturevalue("s3_port"), tmp_path.name)


@pytest.fixture
def folder_place(tmp_path: Path) -> str:
    return f"file://{tmp_path}/place"


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    """A stream of ten segments or so: see `filled`."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        yield filled(store)
