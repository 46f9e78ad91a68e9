"""A path that is no store, or none that this build can open, is refused in words, and nothing there is touched."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import (
    ArgumentError,
    DiskstreamError,
    NetworkFilesystemError,
    NewerFormatError,
    NotAStoreError,
    StorageError,
)
from diskstream.engine import directory
from diskstream.engine.looks import children
from tests.engine.sample import files_of

BOTH = pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
UUID = "7d0a3b6e-5f3c-4f6e-9c55-0f4a4f0b7f52"


def described(**members: object) -> bytes:
    """A store.json like the ones written here, but for some members."""
    features: dict[str, list[str]] = {"compatible": [], "incompatible": []}
    return json.dumps({"format_version": 1, "uuid": UUID, "features": features, **members}).encode()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A closed store with one entry in one stream."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
    return tmp_path / "s"


def refused(path: Path, error: type[DiskstreamError], *, read_only: bool) -> str:
    """The message of the refusal, which names the place."""
    with pytest.raises(error) as caught:
        diskstream.open(path, read_only=read_only)
    assert str(path) in str(caught.value)
    return str(caught.value)


# --- what is no store -------------------------------------------------------------------------------------------------


@BOTH
def test_a_directory_that_holds_something_else_is_left_alone(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    refused(tmp_path, NotAStoreError, read_only=read_only)
    assert files_of(tmp_path) == {"thesis.txt": b"irreplaceable"}


@BOTH
def test_a_file_is_no_store(tmp_path: Path, read_only: bool) -> None:
    file = tmp_path / "file"
    file.write_text("irreplaceable")
    refused(file, NotAStoreError, read_only=read_only)
    refused(file / "below", StorageError if not read_only else NotAStoreError, read_only=read_only)
    assert file.read_text() == "irreplaceable"


def test_nothing_is_made_where_it_shall_not_be(tmp_path: Path) -> None:
    for create, read_only in ((False, False), (True, True)):
        with pytest.raises(NotAStoreError, match="no such directory"):
            diskstream.open(tmp_path / "none", create=create, read_only=read_only)
    assert not (tmp_path / "none").exists()


def test_an_empty_directory_and_missing_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        with diskstream.open(path) as store:
            store.stream("x").add({"n": "1"})


@pytest.mark.parametrize("name", ["lock", "leases", "retention.json"])
def test_a_store_that_somebody_else_makes_meanwhile_is_opened_with_all_that_he_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of the first processes to use a server's directory one was told that it held something else: the lock."""
    path = tmp_path / "s"

    def made_meanwhile(place: Path) -> list[Path]:
        monkeypatch.setattr("diskstream.engine.directory.children", children)
        with diskstream.open(path) as other:
            other.stream("x").add({"n": 1})
        (path / name).touch()
        return children(place)

    path.mkdir()
    monkeypatch.setattr("diskstream.engine.directory.children", made_meanwhile)
    with diskstream.open(path) as store:
        assert len(store.stream("x")) == 1


def test_a_store_that_was_never_finished_is_made_again(tmp_path: Path) -> None:
    """Its maker was killed before `store.json` had its name."""
    (tmp_path / "s" / "streams").mkdir(parents=True)
    (tmp_path / "s" / "store.json.0123456789abcdef.tmp").write_text("{")
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})


@BOTH
@pytest.mark.parametrize("path", ["x" * 300, "a\0b"], ids=["name too long", "NUL"])
def test_a_path_that_cannot_be_is_refused_in_our_words(tmp_path: Path, path: str, read_only: bool) -> None:
    with pytest.raises(DiskstreamError):
        diskstream.open(tmp_path / path, read_only=read_only)


def test_a_relative_path_in_a_removed_directory_is_refused_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a service whose folder a deployment replaced: it ended in a FileNotFoundError that named no path."""
    (tmp_path / "replaced").mkdir()
    monkeypatch.chdir(tmp_path / "replaced")
    (tmp_path / "replaced").rmdir()
    with pytest.raises(ArgumentError, match=r"relative, and the working directory was removed.*for 'data'"):
        diskstream.open("data")
    diskstream.open(tmp_path / "data").close()


def test_a_relative_path_means_the_directory_it_meant_when_the_store_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with diskstream.open("s") as store:
        store.stream("x").add({"n": "1"})
        monkeypatch.chdir("/")
        store.stream("y").add({"n": "2"})
        assert store.seal() == 2
        assert store.streams() == [b"x", b"y"]


# --- store.json -------------------------------------------------------------------------------------------------------

DAMAGED = {
    "empty": b"",
    "cut": described()[:60],
    "a list": b"[]",
    "null": b"null",
    "nested without end": b"[" * 60_000,
    "not text": b"\xff\xfe" * 50,
    "no version": b'{"uuid": "' + UUID.encode() + b'", "features": {"incompatible": []}}',
    "no uuid": described(uuid=None),
    "wrong uuid": described(uuid="x"),
    "no features": described(features=None),
    "no list of features": described(features={"incompatible": 3}),
    "infinite version": described().replace(b": 1,", b": 1e400,"),
    "no number": described(format_version="one"),
    "version 0": described(format_version=0),
    "version -1": described(format_version=-1),
}


@BOTH
@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_store_json_is_named_and_the_streams_are_left_alone(made: Path, data: bytes, read_only: bool) -> None:
    (made / "store.json").write_bytes(data)
    before = files_of(made)
    assert "store.json" in refused(made, NotAStoreError, read_only=read_only)
    assert files_of(made) == before


@BOTH
@pytest.mark.parametrize(
    "members",
    [{"format_version": 2}, {"format_version": 2, "uuid": 7, "features": "other"}, {"format_version": 10**30}],
    ids=["2", "2, otherwise laid out", "huge"],
)
def test_a_newer_store_is_refused_as_such(made: Path, members: dict[str, object], read_only: bool) -> None:
    (made / "store.json").write_bytes(described(**members))
    before = files_of(made)
    assert "upgrade" in refused(made, NewerFormatError, read_only=read_only)
    assert files_of(made) == before


@BOTH
def test_features_that_must_be_known_are_named_and_others_passed_over(made: Path, read_only: bool) -> None:
    unknown = described(features={"compatible": ["colours"], "incompatible": ["sharding", "tiers"]})
    (made / "store.json").write_bytes(unknown)
    assert "sharding, tiers" in refused(made, NewerFormatError, read_only=read_only)
    (made / "store.json").write_bytes(described(features={"compatible": ["colours"], "incompatible": []}, more=[1]))
    with diskstream.open(made, read_only=read_only) as store:
        assert len(store.stream("x")) == 1


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@BOTH
@pytest.mark.parametrize("spoil", [_directory, _loop], ids=["a directory", "a loop of links"])
def test_a_store_json_that_is_no_file_is_an_error_of_ours(
    made: Path, spoil: Callable[[Path], None], read_only: bool
) -> None:
    spoil(made / "store.json")
    refused(made, DiskstreamError, read_only=read_only)


@BOTH
def test_a_store_without_its_streams_is_an_error_of_ours(made: Path, read_only: bool) -> None:
    shutil.rmtree(made / "streams")
    refused(made, DiskstreamError, read_only=read_only)
    (made / "streams").write_bytes(b"")
    refused(made, DiskstreamError, read_only=read_only)


def open_below(folder: Path) -> list[str]:
    """Files of a folder that this process has open, as far as the system says. What others have may go at any time."""
    found = []
    for descriptor in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def test_an_opening_that_fails_lets_go_of_everything(made: Path) -> None:
    """The next one is not kept waiting by a lock that nobody can give up any more."""
    (made / "streams").rename(made / "elsewhere")
    for _ in range(3):
        refused(made, DiskstreamError, read_only=False)
    assert open_below(made) == []
    with (made / "store.json").open() as file:
        assert open_below(made) == ([file.name] if Path("/proc/self/fd").exists() else [])
    (made / "elsewhere").rename(made / "streams")
    with diskstream.open(made) as store:
        assert len(store.stream("x")) == 1


# --- network file systems ---------------------------------------------------------------------------------------------


def mountinfo(tmp_path: Path, *lines: tuple[int, str]) -> Path:
    """A table of mounts: device and kind of each. One line of the real table has optional fields, others have none."""
    text = "".join(
        f"{number} 1 {os.major(device)}:{os.minor(device)} / /mnt/a\\040b rw,relatime {'shared:1 ' * (number % 2)}"
        f"- {kind} server:/export rw\n"
        for number, (device, kind) in enumerate(lines, start=20)
    )
    table = tmp_path / "mountinfo"
    table.write_text("nonsense\n\n- -\n" + text)
    return table


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "ceph", "fuse.sshfs", "lustre"])
def test_a_network_file_system_is_refused_and_named(tmp_path: Path, kind: str) -> None:
    here = tmp_path.stat().st_dev
    for lines in ([(here, kind)], [(here + 1, "ext4"), (here, kind)], [(here, kind), (here + 1, "nfs")]):
        with pytest.raises(NetworkFilesystemError, match=f"{kind} is a network file system") as caught:
            directory.check_filesystem(tmp_path, mountinfo(tmp_path, *lines))
        assert caught.value.filename == str(tmp_path)
        assert caught.value.errno == errno.ENOTSUP


def test_a_local_file_system_is_taken_whatever_else_is_mounted(tmp_path: Path) -> None:
    here = tmp_path.stat().st_dev
    directory.check_filesystem(tmp_path, mountinfo(tmp_path, (here + 1, "nfs4"), (here, "ext4"), (here + 2, "cifs")))
    directory.check_filesystem(tmp_path, mountinfo(tmp_path, (here, "fuse.ntfs-3g"), (here, "tmpfs")))
    directory.check_filesystem(tmp_path, tmp_path / "there is none")


@BOTH
def test_a_store_on_a_network_file_system_is_not_opened(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    table = mountinfo(tmp_path, (made.stat().st_dev, "nfs4"))
    check = directory.check_filesystem
    monkeypatch.setattr(directory, "check_filesystem", lambda path: check(path, table))
    before = files_of(made)
    refused(made, NetworkFilesystemError, read_only=read_only)
    assert files_of(made) == before
    with pytest.raises(NetworkFilesystemError):
        diskstream.open(tmp_path / "new")
    assert not (tmp_path / "new" / "streams").exists()


def test_a_strange_directory_in_a_stream_keeps_nobody_out_and_is_left_alone(tmp_path: Path) -> None:
    """One with a name of an unfinished file did: it was to be removed as one, and every opening failed."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
    strange = tmp_path / "s" / "streams" / "x" / "notes.tmp"
    strange.mkdir()
    (strange / "kept").write_text("of somebody")
    unfinished = strange.with_name("00000001.seg.tmp")
    unfinished.write_text("of ours")
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "2"})
        assert len(store.stream("x")) == 2
        found = {finding.path.name: finding.kind for report in store.recoveries for finding in report.findings}
    assert found == {"notes.tmp": "unknown", unfinished.name: "unfinished"}
    assert (strange / "kept").read_text() == "of somebody"
    assert not unfinished.exists()


@pytest.mark.parametrize("name", [".new-list", ".deleted-list"])
def test_a_strange_file_among_the_streams_keeps_nobody_out_and_is_left_alone(tmp_path: Path, name: str) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
    strange = tmp_path / "s" / "streams" / name
    strange.write_text("of somebody")
    with diskstream.open(tmp_path / "s") as store:
        assert store.streams() == [b"x"]
        store.rename("x", "y")
    assert strange.read_text() == "of somebody"
