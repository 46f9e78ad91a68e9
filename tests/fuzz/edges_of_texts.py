"""What people and programs type: IDs, names, patterns, settings, URLs, rows to import."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path

from diskstream.commands.globs import glob
from diskstream.commands.replies import Failure
from diskstream.compat.opening import parse_url
from diskstream.compat.raw import parse_all
from diskstream.engine import names
from diskstream.exporting.request import parse_columns
from diskstream.ids import parse_add_id, parse_end, parse_id, parse_start
from diskstream.ingest.csv_rows import csv_rows
from diskstream.ingest.entry_rows import entry_rows
from diskstream.ingest.jsonl_rows import jsonl_rows
from diskstream.ingest.line_rows import line_rows
from diskstream.ingest.lines import Lines
from diskstream.ingest.times import TimeParser, parse_timezone
from diskstream.object_address import Address
from diskstream.replaying.conditions import parse_condition
from diskstream.retention_rule import RetentionRule
from diskstream.server.config_file import read_config
from diskstream.server.settings import from_words
from diskstream.server.settings import names as setting_names
from diskstream.spark import offsets
from diskstream.spark.options import parse_duration_s
from tests.fuzz.edges import Edge

__all__ = ["EDGES"]

_IDS = (b"1692632086370-12", b"5", b"(5-1", b"-", b"+", b"*", b"7-*", b"18446744073709551615-18446744073709551615")
_CSV = b'id,name,"a ""quoted"" one"\n5-1,x,"two\nlines"\n6-1,,\n'
_CONFIG = b'# a comment\nport 6380\nmaxmemory 64kb\nbind 127.0.0.1 ::1\nrequirepass "a \\x41 b"\nappendonly yes\n'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _of(*seeds: bytes) -> Callable[[Path], tuple[bytes, ...]]:
    return lambda _folder: seeds


def _ids(data: bytes, _folder: Path) -> None:
    refused: Exception | None = None
    for parse in (parse_id, parse_add_id, parse_start, parse_end):
        for given in (data, _text(data)):
            try:
                parse(given)
            except ValueError as error:
                refused = error
    if refused is not None:
        raise refused


def _rows(rows: Callable[[Lines], Iterable[object]]) -> Callable[[bytes, Path], object]:
    return lambda data, _folder: list(rows(Lines(io.BytesIO(data), max_bytes=4096)))


def _times(data: bytes, _folder: Path) -> None:
    refused: Exception | None = None
    for fmt in ("auto", "iso", "epoch", "epoch-ns", "%Y-%m-%d %H:%M:%S", "%b %d %H:%M:%S"):
        try:
            TimeParser(fmt, year=2026)(_text(data))
        except ValueError as error:
            refused = error
    parse_timezone(_text(data))
    if refused is not None:
        raise refused


def _config(data: bytes, folder: Path) -> None:
    path = folder / "given.conf"
    path.write_bytes(data)
    from_words(read_config(path, setting_names()).settings)


def _glob(data: bytes, _folder: Path) -> None:
    pattern = glob(data[:64])
    for name in (b"", b"race:france", data, b"a" * 200):
        pattern.fullmatch(name)


def _named(data: bytes, folder: Path) -> None:
    name = _text(data).replace("/", "%2f").replace("\0", "%00")[:255]
    name = "x" if name in ("", ".") else name  # a path with one of these behind it is that of the folder itself
    found = names.decode_directory(folder / name)
    assert found is None or names.encode_name(found) == name
    for look in (names.parse_file, names.audit_number, names.state_number):
        look(name)
    if data:
        encoded = names.encode_name(data)
        assert names.is_long(encoded) or names.decode_directory(folder / encoded) == data


def _conditions(data: bytes, _folder: Path) -> None:
    parse_condition(data)


def _offset(data: bytes, _folder: Path) -> None:
    text = _text(data)
    offsets.decode({text: text, "a": text})


def _rule(data: bytes, _folder: Path) -> None:
    rule = RetentionRule.unpack(data, "here")
    assert RetentionRule.unpack(rule.packed, "here") == rule
    str(rule)


EDGES = (
    Edge("IDs", _of(*_IDS), _ids),
    Edge("CSV", _of(_CSV, b"a;b\r\n1;2\r\n"), _rows(csv_rows)),
    Edge("JSON lines", _of(b'{"a": 1.10, "b": "x", "b": [1, {}], "c": null}\n{"d": "\\udc80"}\n'), _rows(jsonl_rows)),
    Edge(
        "lines of entries",
        _of(b'{"id": "5-1", "fields": {"a": "1"}}\n{"id": "6-1", "pairs": [["a", "1"], ["a", "2"]]}\n'),
        _rows(entry_rows),
    ),
    Edge("lines", _of(b"one\ntwo\r\n\n"), _rows(line_rows)),
    Edge(
        "times",
        _of(b"2026-11-21T10:11:12.5+02:00", b"1692632086370", b"Nov 21 10:11:12", b"Europe/Paris", b"+02:00"),
        _times,
        (ValueError,),
    ),
    Edge("settings of a server", _of(_CONFIG), _config),
    Edge("globs", _of(b"race:*[^a-c]?\\*x", b"*a*b*c", b"[z-a]"), _glob, (Failure,)),
    Edge("names of files", _of(b"race%3afrance", b"00000007.g2.seg", b"00000007.log", b"7.cold"), _named),
    Edge("conditions", _of(b"speed>30.5", b"name~^C.*", b"a!=b", b"x<=1e3"), _conditions),
    Edge("columns", _of(b"a,b:int64,c:decimal(10,2)", b"a:timestamp"), lambda data, _folder: parse_columns(data)),
    Edge(
        "places",
        _of(b"s3://bucket/prefix?region=eu-west-1&endpoint_override=localhost:9000", b"file:///var/cold"),
        lambda data, _folder: Address.parse(_text(data)),
    ),
    Edge(
        "URLs of a client",
        _of(b"diskstream:///var/lib/app/0?decode_responses=1&db=2"),
        lambda data, _folder: parse_url(_text(data)),
        (ValueError,),
    ),
    Edge("durations", _of(b"500ms", b"1.5h"), lambda data, _folder: parse_duration_s(_text(data)), (ValueError,)),
    Edge("offsets of Spark", _of(b"5-1", b"7"), _offset),
    Edge(
        "RESP of our own replies",
        _of(b"*2\r\n$3\r\n5-1\r\n%1\r\n+a\r\n:5\r\n", b"-ERR no\r\n", b",1.5\r\n_\r\n#t\r\n"),
        lambda data, _folder: parse_all(data),
        (ValueError,),
    ),
    Edge("rules of retention", _of(b'{"max_age_ms":5,"max_entries":7,"ref":"KEEPREF"}', b'{"max_bytes":9}'), _rule),
)
