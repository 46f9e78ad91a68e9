"""What is on disk: a store, a stream, a file, the bytes of a file. Works where nothing can be opened."""

import os
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine import names, replacing
from diskstream.engine.dissect import Depth, Row, dissect_file
from diskstream.engine.dissect_store import dissect_store, dissect_stream
from diskstream.engine.files import wrapped
from diskstream.engine.hexdump import Line, dump
from diskstream.errors import NoSuchStreamError
from diskstream.options import Options

__all__ = ["Depth", "Line", "Row", "dump_bytes", "inspect_file", "inspect_store", "inspect_stream"]


def inspect_store(path: str | os.PathLike[str]) -> Iterator[Row]:
    """What a store consists of: rows of plain values, each with what it is of under ``is``.

    Raises:
        NotAStoreError: nothing says that this is a store.
    """
    return dissect_store(Path(path).absolute())


def inspect_stream(path: str | os.PathLike[str], name: str | bytes, depth: Depth | None = None) -> Iterator[Row]:
    """What a stream of a store consists of: segments, the active log, groups, files, quarantine.

    Raises:
        NoSuchStreamError: there is none of that name.
    """
    store, key = Path(path).absolute(), names.as_name(name)
    if not replacing.place_of(store / "streams", key).is_dir():
        raise NoSuchStreamError(key, "inspect the store to see which there are")
    return dissect_stream(key, store, Options(), depth or Depth())


def inspect_file(path: str | os.PathLike[str], depth: Depth | None = None) -> Iterator[Row]:
    """What stands in a file of a stream: a log, a sealed segment, an audit; also one from a quarantine.

    Raises:
        StorageError: it cannot be read.
        FileNotFoundError: it is not there.
    """
    with wrapped(Path(path), "read"):
        yield from dissect_file(Path(path), depth or Depth())


def dump_bytes(path: str | os.PathLike[str], offset: int, length: int, *, each_byte: bool = False) -> Iterator[Line]:
    """Bytes of a file of a stream, each with the field that it belongs to.

    Args:
        path: the file.
        offset: of the first byte.
        length: how many.
        each_byte: one line for each byte, not for each field.

    Raises:
        StorageError: it cannot be read.
        FileNotFoundError: it is not there.
    """
    with wrapped(Path(path), "read"):
        yield from dump(Path(path), offset, length, each_byte=each_byte)
