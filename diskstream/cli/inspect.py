"""`diskstream inspect`: what is on disk, of a store, a stream or a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

from diskstream.arguments import path_of
from diskstream.cli.advice import for_command
from diskstream.cli.failure import Failure
from diskstream.cli.options import as_bytes, json_option, none_missing, optional_directory_option
from diskstream.cli.output import plain, text, write_json
from diskstream.dissecting import Depth, Line, Row, dump_bytes, inspect_file, inspect_store, inspect_stream
from diskstream.plurals import number_of

__all__ = ["command"]

_RANGE = re.compile(r"(0x[0-9a-fA-F]+|\d+):(0x[0-9a-fA-F]+|\d+)")
_MOST_BYTES = 1 << 20


class _Range(click.ParamType[tuple[int, int]]):
    """OFFSET:LENGTH, in decimal or with 0x."""

    name = "range"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail("give OFFSET:LENGTH in bytes, for instance 4096:64 or 0x1000:0x40", param, ctx)
        offset, length = int(match[1], 0), int(match[2], 0)
        if length > _MOST_BYTES:
            self.fail(f"at most {_MOST_BYTES} bytes at once", param, ctx)
        return offset, length


@click.command("inspect")
@click.argument("target", metavar="[STREAM | FILE]", type=as_bytes, required=False)
@optional_directory_option("The store's directory; not needed for a file.")
@click.option("--frames", "--nodes", "parts", is_flag=True, help="Each frame, node, index row and block.")
@click.option("--entries", is_flag=True, help="Each entry, and each record of groups.")
@click.option("--bytes", "span", type=_Range(), metavar="OFFSET:LENGTH", help="The bytes of a file, field by field.")
@click.option("--each-byte", is_flag=True, help="With --bytes: a line for each byte.")
@json_option
def command(
    *,
    target: bytes | None,
    directory: Path | None,
    parts: bool,
    entries: bool,
    span: tuple[int, int] | None,
    each_byte: bool,
    as_json: bool,
) -> None:
    """Show what is on disk: of a store, of one of its streams, or of a file.

    A name is that of a stream, unless it has a slash or there is no --dir: then it is a file, which may be damaged, in
    quarantine, or a copy. Nothing is changed.
    """
    depth = Depth(parts=parts, entries=entries)
    file = Path(os.fsdecode(target)) if target is not None and (directory is None or b"/" in target) else None
    if file is None and directory is None:
        raise click.UsageError("name a file, or a store with --dir")
    if target is None and (parts or entries):
        raise click.UsageError("--frames, --nodes and --entries want a stream or a file")
    if each_byte and span is None:
        raise click.UsageError("--each-byte wants --bytes")
    if file is None and target is not None and directory is not None:
        directory = path_of(directory)  # a stream is opened by it
    if file is not None and not file.is_file():
        raise _no_file(file)
    if span is not None:
        if file is None:
            raise click.UsageError("--bytes wants a file")
        size = file.stat().st_size
        if span[0] >= size:
            raise Failure(
                f"{file} has no byte at {span[0]:,}", hint=f"it has {number_of(size, 'byte')}; the first is at 0"
            )
        _dump(dump_bytes(file, *span, each_byte=each_byte), as_json=as_json)
        return
    for row in _rows(file, directory, target, depth):
        if "why" in row:
            row["why"] = for_command(str(row["why"]))
        if as_json:
            write_json(row)
        else:
            click.echo(_line(row))


def _no_file(path: Path) -> Failure:
    """Says of a directory that is a store, or a stream in one, how to look at that."""
    if not path.is_dir():
        return Failure(f"there is no file {path}", hint="a stream is named together with --dir STORE")
    hint = "name one of its files"
    if (path / "store.json").exists() or (path / "streams").is_dir():
        hint = f"diskstream inspect --dir {path} looks at the store"
    elif path.absolute().parent.name == "streams":
        hint = f"diskstream inspect --dir {path.absolute().parent.parent} STREAM looks at a stream"
    return Failure(f"{path} is a directory, not a file", hint=hint)


def _rows(file: Path | None, directory: Path | None, target: bytes | None, depth: Depth) -> Iterable[Row]:
    if file is not None:
        return inspect_file(file, depth)
    assert directory is not None
    try:
        with none_missing(directory):
            return inspect_store(directory) if target is None else inspect_stream(directory, target, depth)
    except Failure as failure:
        if target is not None and Path(os.fsdecode(target)).is_file():
            failure.hint = f"a file is named with a slash: ./{text(target)}"
        raise


def _dump(lines: Iterable[Line], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            write_json({"offset": line.offset, "hex": line.data.hex(), "of": line.of, "value": line.value})
        else:
            click.echo(_hex(line))


def _hex(line: Line) -> str:
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line.data)  # noqa: PLR2004  # printable ASCII
    value = "" if line.value is None else f" = {line.value}"
    return f"{line.offset:>12} {line.offset:#010x}  {line.data.hex(' '):<47}  {shown:<16}  {line.of}{value}"


def _line(row: Row) -> str:
    what = str(row["is"])
    offset = f"{row['offset']:>12}  " if isinstance(row.get("offset"), int) else ""
    facts = "  ".join(f"{name}={_value(value)}" for name, value in row.items() if name not in ("is", "offset"))
    return f"{offset}{what}: {facts}" if facts else f"{offset}{what}"


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes | str):
        return text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return str(plain(value))
