"""CSV into rows: RFC 4180 in bytes, and what becomes of a row that is not."""

import csv
import io
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from diskstream.ingest.csv_rows import csv_rows
from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import BadRow, Row


def read(
    content: bytes, *, delimiter: bytes = b",", columns: Sequence[bytes] | None = None, max_bytes: int = 1 << 20
) -> list[Row | BadRow]:
    lines = Lines(io.BytesIO(content), max_bytes=max_bytes)
    return list(csv_rows(lines, delimiter=delimiter, columns=columns))


def values(content: bytes, **options: bytes) -> list[list[bytes]]:
    rows = read(content, **options)  # type: ignore[arg-type]  # one of its options, of its kind
    assert all(isinstance(row, Row) for row in rows), rows
    return [[value for _, value in row.pairs] for row in rows if isinstance(row, Row)]


def faults(rows: list[Row | BadRow]) -> list[tuple[int, str]]:
    return [(row.line, row.reason) for row in rows if isinstance(row, BadRow)]


def test_the_header_names_the_fields_of_every_row() -> None:
    assert read(b"timestamp,value\n2014-07-01,10844\n") == [
        Row(2, [(b"timestamp", b"2014-07-01"), (b"value", b"10844")], b"2014-07-01,10844\n")
    ]


def test_a_name_may_come_twice_and_both_values_are_kept() -> None:
    assert read(b"a,a\n1,2\n") == [Row(2, [(b"a", b"1"), (b"a", b"2")], b"1,2\n")]


def test_columns_can_be_named_where_the_file_has_no_header() -> None:
    assert read(b"1,2\n", columns=[b"x", b"y"]) == [Row(1, [(b"x", b"1"), (b"y", b"2")], b"1,2\n")]


def test_quotes_hide_delimiters_newlines_and_quotes() -> None:
    assert values(b'a,b\n"x, ""y""","line 1\r\nline 2\n"\n"",plain\n') == [
        [b'x, "y"', b"line 1\r\nline 2\n"],
        [b"", b"plain"],
    ]


def test_a_quote_within_a_plain_value_is_data() -> None:
    assert values(b'a,b\n3.5" disk,it""s\n') == [[b'3.5" disk', b'it""s']]


def test_every_byte_of_a_value_is_kept_but_the_newline_of_its_row() -> None:
    odd = bytes(byte for byte in range(256) if byte not in b'\n\r",')
    assert values(b"a,b\r\n" + odd + b", \t x\r\n") == [[odd, b" \t x"]]
    assert values(b"a,b\n\r1,2\r") == [[b"\r1", b"2\r"]]


def test_the_last_row_needs_no_newline() -> None:
    assert values(b"a,b\n1,2") == [[b"1", b"2"]]
    assert values(b'a,b\n1,"2"') == [[b"1", b"2"]]
    assert values(b"a,b\n1,") == [[b"1", b""]]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    rows = read(b"\xef\xbb\xbfa,b\n1,2\n")
    assert [row.pairs for row in rows if isinstance(row, Row)] == [[(b"a", b"1"), (b"b", b"2")]]


def test_blank_lines_are_no_rows_unless_there_is_one_column() -> None:
    assert values(b"\na,b\n\n1,2\n\r\n") == [[b"1", b"2"]]
    assert values(b"a\n\n1\n") == [[b""], [b"1"]]


def test_another_delimiter() -> None:
    assert values(b"a\tb\n1,5\t2\n", delimiter=b"\t") == [[b"1,5", b"2"]]


def test_a_file_without_rows() -> None:
    assert read(b"") == []
    assert read(b"a,b\n") == []


def test_a_wrong_number_of_columns_is_a_bad_row_and_the_next_is_read() -> None:
    rows = read(b"a,b\n1\n1,2,3\n1,2\n")
    assert faults(rows) == [
        (2, "has 1 column where the header has 2"),
        (3, "has 3 columns where the header has 2"),
    ]
    assert isinstance(rows[2], Row)


def test_text_after_a_closing_quote_is_a_bad_row() -> None:
    rows = read(b'a,b\n1,"x"y\n1,2\n')
    assert faults(rows) == [(2, "column 2 goes on after its closing quote")]
    assert rows[1] == Row(3, [(b"a", b"1"), (b"b", b"2")], b"1,2\n")


def test_an_open_quote_costs_its_own_line_and_not_the_rest_of_the_file() -> None:
    rows = read(b'a,b\n1,"x\n3,4\n5,6\n')
    assert faults(rows) == [(2, "opens a quote in column 2 that is never closed")]
    assert [row.line for row in rows if isinstance(row, Row)] == [3, 4]


def test_lines_are_counted_through_values_that_span_several() -> None:
    rows = read(b'a,b\n"1\n2\n3",x\nbad\n')
    assert [(type(row), row.line) for row in rows] == [(Row, 2), (BadRow, 5)]
    assert rows[0] == Row(2, [(b"a", b"1\n2\n3"), (b"b", b"x")], b'"1\n2\n3",x\n')


def test_a_row_longer_than_the_limit_is_a_bad_row_and_is_never_cut_short() -> None:
    long = b"x" * 100
    rows = read(b"a,b\n" + long + b",1\n3,4\n", max_bytes=50)
    assert faults(rows) == [(2, "is longer than 50 bytes")]
    assert isinstance(rows[1], Row)
    quoted = read(b'a,b\n1,"x\n' + long + b'",\n3,4\n', max_bytes=50)
    assert [row.line for row in quoted if isinstance(row, BadRow)] == [2, 3]
    assert isinstance(quoted[-1], Row)


TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=width, max_size=width),
        max_size=6,
    )
)


@given(table=TABLES, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_the_standard_library_writes_is_read_back_to_the_byte(table: list[list[str]], quoting: int) -> None:
    header = [f"c{number}" for number in range(len(table[0]) if table else 1)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting).writerows([header, *table])  # type: ignore[arg-type]  # a plain number, of those it knows
    assert values(text.getvalue().encode()) == [[value.encode() for value in row] for row in table]
