"""JSON lines into rows: every value keeps its text."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diskstream.ingest.jsonl_rows import jsonl_rows
from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import BadRow, Pairs, Row


def read(content: bytes, max_bytes: int = 1 << 20) -> list[Row | BadRow]:
    return list(jsonl_rows(Lines(io.BytesIO(content), max_bytes=max_bytes)))


def pairs(line: str | bytes) -> Pairs:
    (row,) = read(line if isinstance(line, bytes) else line.encode())
    assert isinstance(row, Row), row
    return row.pairs


def test_each_member_is_a_field_in_its_order() -> None:
    assert pairs('{"rider": "Castilla", "speed": 30.2}') == [(b"rider", b"Castilla"), (b"speed", b"30.2")]


def test_strings_are_their_text_and_all_else_is_as_it_was_written() -> None:
    strings, numbers = r'"s": "a\"b\u00e9\n"', '"n": 1.10, "big": 12345678901234567890123, "e": 1E5'
    others = '"t": true, "z": null, "l": [1, 2.0], "o": {"a":  1.0}'
    assert pairs(f"{{{strings}, {numbers}, {others}}}") == [
        (b"s", 'a"bé\n'.encode()),
        (b"n", b"1.10"),
        (b"big", b"12345678901234567890123"),
        (b"e", b"1E5"),
        (b"t", b"true"),
        (b"z", b"null"),
        (b"l", b"[1, 2.0]"),
        (b"o", b'{"a":  1.0}'),
    ]


def test_a_number_of_ten_thousand_digits_keeps_them() -> None:
    digits = "7" * 10_000
    assert pairs(f'{{"n": {digits}}}') == [(b"n", digits.encode())]


def test_a_name_may_come_twice_and_both_values_are_kept() -> None:
    assert pairs('{"a": 1, "a": 2}') == [(b"a", b"1"), (b"a", b"2")]


def test_blanks_blank_lines_and_a_byte_order_mark_do_not_matter() -> None:
    rows = read(b'\xef\xbb\xbf { "a" : 1 , "b" : "x" } \r\n\n  \n{"a":2}')
    assert [(row.line, row.pairs) for row in rows if isinstance(row, Row)] == [
        (1, [(b"a", b"1"), (b"b", b"x")]),
        (4, [(b"a", b"2")]),
    ]
    assert len(rows) == 2


def test_an_odd_byte_that_was_printed_as_a_lone_surrogate_becomes_that_byte_again() -> None:
    assert pairs(json.dumps({"line": b"caf\xe9 \xff".decode("utf-8", "surrogateescape")})) == [
        (b"line", b"caf\xe9 \xff")
    ]


def test_another_lone_surrogate_is_not_lost() -> None:
    assert pairs(r'{"a": "\ud800"}') == [(b"a", b"\xed\xa0\x80")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "Expecting ',' or '}'"),
        (b'{"a" 1}', "Expecting ':'"),
        (b"{a: 1}", "Expecting a name in double quotes"),
        (b'{"a": }', "Expecting value"),
        (b'{"a": 1} x', "Extra data after the object"),
        (b'{"a": "x', "Unterminated string"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b"{}", "without members"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_and_the_next_is_read(line: bytes, reason: str) -> None:
    bad, good = read(b"\n" + line + b'\n{"a": 1}\n')
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.raw) == (2, line + b"\n")
    assert reason in bad.reason
    assert isinstance(good, Row)


def test_a_line_longer_than_the_limit_is_a_bad_row() -> None:
    bad, good = read(b'{"a": "' + b"x" * 100 + b'"}\n{"a": 1}\n', max_bytes=50)
    assert isinstance(bad, BadRow)
    assert bad.reason == "is longer than 50 bytes"
    assert isinstance(good, Row)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(record=st.dictionaries(st.text(), VALUES, min_size=1, max_size=5), indent=st.booleans())
def test_what_the_standard_library_writes_keeps_its_text(record: dict[str, object], indent: bool) -> None:
    line = json.dumps(record, separators=(" , ", " : ") if indent else None)
    expected = [
        (name, value if isinstance(value, str) else json.dumps(value, separators=(" , ", " : ") if indent else None))
        for name, value in record.items()
    ]
    assert pairs(line) == [
        (name.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")) for name, value in expected
    ]
