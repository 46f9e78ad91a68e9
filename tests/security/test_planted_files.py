"""Links, pipes, devices and giants in a store's directory: nothing outside is read into it, written to or removed."""

import os
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.files import MAX_LOG_BYTES
from diskstream.errors import CorruptionError, DiskstreamError, StorageError
from tests.security.planted import a_store, image, instead

FILES = ("00000001.seg", "00000006.log", "ctl", "name", "00000006.state", "00000001.audit", "00000001.cold")


def use(path: Path, *, read_only: bool = False) -> None:
    """Everything that a program does to a store; errors of ours are fine, hanging and other errors are not."""
    for step in ("range", "add", "group", "verify", "sync"):
        try:
            with diskstream.open(path, create=False, read_only=read_only, seal="manual", pending_rows=1) as store:
                stream = store.stream("s")
                if step == "range":
                    list(stream.range())
                elif step == "add" and not read_only:
                    stream.add({"n": "more"})
                elif step == "group" and not read_only:
                    stream.group("g").consumer("ann").read(count=1)
                elif step == "verify":
                    store.verify()
                else:
                    store.seal()
                    store.sync()
        except DiskstreamError:
            continue


@pytest.mark.timeout(20)
@pytest.mark.parametrize("how", ["pipe", "socket", "device", "directory"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_neither_hangs_nor_is_written_to(tmp_path: Path, name: str, how: str) -> None:
    """Opening a pipe waited for ever for somebody at its other end."""
    store = a_store(tmp_path / "s")
    (place,) = (store / "streams").iterdir()
    instead(place / name, how)
    use(store, read_only=True)
    use(store)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("where", ["store.json", "ctl", "view/users", "view/epoch", "view/data.mdb", "leases", "keys"])
def test_the_same_for_files_of_the_store(tmp_path: Path, where: str) -> None:
    store = a_store(tmp_path / "s")
    if (store / where).parent.is_dir():
        instead(store / where, "pipe")
    use(store, read_only=True)
    use(store)


@pytest.mark.parametrize("where", ["ctl", "streams/s/ctl", "streams/s/00000006.log", "view/users", "view/epoch.tmp"])
@pytest.mark.parametrize("size_bytes", [10, 100_000])
def test_a_link_does_not_choose_which_file_is_written_to(tmp_path: Path, where: str, size_bytes: int) -> None:
    """`ctl` as a link had zeros written over the file that it pointed to, `view/epoch.tmp` cut it to nothing."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"p" * size_bytes)
    store = a_store(tmp_path / "s")
    (store / where).unlink(missing_ok=True)
    (store / where).symlink_to(precious)
    use(store)
    assert precious.read_bytes() == b"p" * size_bytes
    (store / where).unlink(missing_ok=True)
    (store / where).symlink_to(tmp_path / "made")
    use(store)
    assert not (tmp_path / "made").exists()


def test_a_link_is_no_stream(tmp_path: Path) -> None:
    """A stream that was a link to another store's was read and written through it."""
    other = a_store(tmp_path / "private")
    store = a_store(tmp_path / "s")
    before = image(other)
    (store / "streams" / "mine").symlink_to(other / "streams" / "s", target_is_directory=True)
    with diskstream.open(store) as opened:
        assert opened.streams() == [b"s"]
        for action in (lambda s: s.add({"n": 1}), list, lambda s: s.create_group("h")):
            with pytest.raises(StorageError, match="symbolic link"):
                action(opened.stream("mine"))
    assert image(other) == before


@pytest.mark.parametrize("name", [".deleted-0", ".new-0", "mine"])
def test_removing_a_link_removes_nothing_behind_it(tmp_path: Path, name: str) -> None:
    """What a removal had left was swept at the next opening, through a link: all that was behind it was gone."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter").write_text("dear")
    store = a_store(tmp_path / "s")
    (store / "streams" / name).symlink_to(tmp_path / "precious", target_is_directory=True)
    with diskstream.open(store) as opened:
        opened.delete(name)
        opened.stream("fresh").add({"n": 1})
    with diskstream.open(store):
        pass
    assert (tmp_path / "precious" / "letter").read_text() == "dear"
    assert not (store / "streams" / name).is_symlink()


def test_a_giant_of_holes_fills_no_disk(tmp_path: Path) -> None:
    """The holes of a sparse log were filled when it was opened, be it a terabyte of them."""
    store = a_store(tmp_path / "s")
    log = store / "streams" / "s" / "00000006.log"
    os.truncate(log, 1 << 40)
    taken = log.stat().st_blocks
    for read_only in (True, False):
        with diskstream.open(store, read_only=read_only) as opened, pytest.raises(CorruptionError, match="at most"):
            opened.stream("s").last_id()
    assert log.stat().st_blocks == taken
    assert MAX_LOG_BYTES > (3 << 30) * 3  # a snapshot, and twice as much in frames
    os.truncate(log, 1 << 16)
    os.truncate(store / "streams" / "s" / "00000001.seg", 1 << 40)
    use(store)
    use(store, read_only=True)


NOT_HIS = "not the owner's alone"


def test_a_view_of_somebody_else_is_not_mapped(tmp_path: Path) -> None:
    """LMDB believes its file to the last pointer: one that another user planted must not even be opened."""
    store = a_store(tmp_path / "s")
    (store / "view").chmod(0o777)
    with diskstream.open(store, pending_rows=1) as opened, pytest.raises(StorageError, match=NOT_HIS):
        opened.stream("s").group("g").pending_range(count=9)
    (store / "view").chmod(0o700)
    if os.geteuid() == 0:
        os.chown(store / "view" / "data.mdb", 12345, 12345)
        with (
            diskstream.open(store, pending_rows=1) as opened,
            pytest.raises(StorageError, match=NOT_HIS),
        ):
            opened.stream("s").group("g").pending_range(count=9)
        os.chown(store / "view" / "data.mdb", 0, 0)
    with diskstream.open(store, pending_rows=1) as opened:
        assert len(opened.stream("s").group("g").pending_range(count=9)) == 3
    view = store / "view"
    view.rename(tmp_path / "elsewhere")
    view.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(StorageError, match="symbolic link"):
        diskstream.open(store, pending_rows=1)


def test_an_export_is_not_written_through_a_link_that_waits_for_it(tmp_path: Path) -> None:
    """The name that an export has until it is whole can be foreseen: in a folder of all, somebody may have it first."""
    from diskstream.exporting import ExportRequest, export_file

    precious = tmp_path / "precious"
    precious.write_text("dear")
    (tmp_path / ".out.csv.partial").symlink_to(precious)
    with diskstream.open(a_store(tmp_path / "s")) as store, pytest.raises(StorageError):
        export_file(store, ExportRequest((b"s",), "csv"), tmp_path / "out.csv", replace=True)
    assert precious.read_text() == "dear"
