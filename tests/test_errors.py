"""Errors that go from one process to another: a worker's to its pool, a task's to Spark's driver."""

import copy
import errno
import os
import pickle
from typing import Any

import pytest

from diskstream import errors
from diskstream.errors import DiskstreamError

MADE: list[DiskstreamError] = [
    errors.DiskstreamError("plain"),
    errors.ArgumentError("no"),
    errors.ArgumentTypeError("no such kind"),
    errors.InvalidIDError("x"),
    errors.IDOrderError(),
    errors.ZeroIDError(),
    errors.IDExhaustedError(),
    errors.LimitError("a name", 5, 7, "too long"),
    errors.DataLossError("s", "it was trimmed", "1-0 to 2-0"),
    errors.RemoteError("s3://x", "no answer", "try again"),
    errors.ChangedError("s3://x", "is another"),
    errors.LostObjectError("s3://x", "is not there any more", "put it back"),
    errors.NoSuchStreamError(b"s", words="no key."),
    errors.StreamExistsError(b"s"),
    errors.NoGroupError(b"s", b"g", "XINFO", no_stream=True),
    errors.GroupExistsError(b"s", b"g"),
    errors.ClosedError("the store"),
    errors.StoreBusyError("/x", ["1234 (worker)"]),
    errors.MissingPackageError("scan()", "pyarrow", "archive"),
    errors.MissingPackageError("scan()", "pyarrow", "archive", ImportError("no memory")),
    errors.StorageError("/x", "write to", 5, "Input/output error"),
    errors.DiskFullError("/x", "write to", 28, "No space left on device"),
    errors.PoisonedError("/x", "a flush failed"),
    errors.ReadOnlyError("/x", why="it is a copy"),
    errors.NetworkFilesystemError("/x", "nfs"),
    errors.NamespaceError("/x"),
    errors.FormatError("no"),
    errors.NotAStoreError("/x", "there is no store.json"),
    errors.NewerFormatError("/x", "store.json", 1, 2),
    errors.ArchiveError("no"),
    errors.ArchiveChangedError("/x", 3),
    errors.CorruptionError("/x", "frame", 64, "one", "none"),
]


def _tree(kind: type[DiskstreamError]) -> set[type[DiskstreamError]]:
    return {kind}.union(*(_tree(each) for each in kind.__subclasses__()))


def _said(error: DiskstreamError) -> dict[str, Any]:
    found = {"text": str(error), "args": error.args, **vars(error)}
    if isinstance(error, OSError):
        found |= {"errno": error.errno, "strerror": error.strerror, "filename": error.filename}
    if isinstance(error, ImportError):
        found |= {"name": error.name}
    return found


def test_each_error_of_the_tree_is_among_those() -> None:
    ours = {kind for kind in _tree(DiskstreamError) if kind.__module__ == errors.__name__}
    assert ours == {type(error) for error in MADE}


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_comes_over_as_it_was(error: DiskstreamError) -> None:
    """Some could not be read back, and ended a pool of workers; others said something else there."""
    error.add_note("while reading")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert _said(again) == _said(error)


@pytest.mark.parametrize(
    ("code", "told_by"),
    [
        (errno.EFBIG, "ulimit -f"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "ulimit -n"),
        (errno.ENOMEM, "ulimit -v"),
        (errno.EXDEV, ""),
        (errno.EIO, ""),
    ],
)
def test_what_a_limit_forbids_says_whose_limit_that_is(code: int, told_by: str) -> None:
    error = errors.storage_error("store/00000001.log", "extend", code, os.strerror(code))
    assert told_by in (error.hint or "")
    assert (error.hint is None) == (not told_by)
    assert pickle.loads(pickle.dumps(error)).hint == error.hint


def test_names_in_messages_are_text_and_harmless() -> None:
    """They were bytes as Python writes them: `b'gr\\xc3\\xb6\\xc3\\x9fe'`."""
    assert "no stream 'größe';" in str(errors.NoSuchStreamError("größe".encode()))
    assert errors.quoted(b"\x1b[31m\xff") == r"'\x1b[31m\\xff'"
