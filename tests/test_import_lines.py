"""Files into lines, and plain log lines into rows: every byte is kept."""

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diskstream.ingest.errors import InputError
from diskstream.ingest.line_rows import line_rows
from diskstream.ingest.lines import Lines, reading_lines
from diskstream.ingest.rows import BadRow, Row


def read(content: bytes, max_bytes: int = 1 << 20) -> list[Row | BadRow]:
    return list(line_rows(Lines(io.BytesIO(content), max_bytes=max_bytes)))


def values(content: bytes) -> list[bytes]:
    rows = read(content)
    assert all(isinstance(row, Row) and [name for name, _ in row.pairs] == [b"line"] for row in rows), rows
    return [row.pairs[0][1] for row in rows if isinstance(row, Row)]


def test_a_line_is_one_field_with_all_its_bytes_but_the_newline() -> None:
    assert values(b'Jun 3 caf\xe9 \x00\x0b\x85, "x"\n\n  b \r\n') == [
        b'Jun 3 caf\xe9 \x00\x0b\x85, "x"',
        b"",
        b"  b \r",
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\xef\xbb\xbfone\ntwo\n", [b"one", b"two"]),
        (b"\xef\xbb\xbf\none\n", [b"", b"one"]),
        (b"\xef\xbb\xbf", []),
        (b"one\n\xef\xbb\xbftwo\n", [b"one", b"\xef\xbb\xbftwo"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfone", [b"\xef\xbb\xbfone"]),
    ],
)
def test_a_byte_order_mark_at_the_beginning_of_a_file_is_no_part_of_its_first_line(
    content: bytes, found: list[bytes]
) -> None:
    """The first entry began with three bytes that nobody sees, and no search for the line found it."""
    assert values(content) == found


@given(content=st.binary() | st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xff", b"\r\n"])).map(b"".join))
def test_joined_with_newlines_the_values_are_the_file(content: bytes) -> None:
    assert b"\n".join(values(content)) == content.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")


def test_a_line_longer_than_the_limit_is_a_bad_row_that_keeps_its_beginning() -> None:
    bad, good = read(b"x" * 99 + b"\nshort\n", max_bytes=10)
    assert bad == BadRow(1, "is longer than 10 bytes", b"x" * 11)
    assert good == Row(2, [(b"line", b"short")], b"short\n")


def test_lines_that_are_pushed_back_come_again_with_their_numbers() -> None:
    lines = Lines(io.BytesIO(b"1\n2\n3\n"))
    first, second = lines.next_line(), lines.next_line()
    lines.push_back([second])
    assert (first, lines.number) == (b"1\n", 1)
    assert [(lines.next_line(), lines.number) for _ in range(3)] == [(b"2\n", 2), (b"3\n", 3), (b"", 3)]


def test_text_of_another_encoding_becomes_utf8() -> None:
    content = "prix: 3 €\ncafé\n"
    for encoding in ("cp1252", "utf-16", "utf-32-le"):
        with reading_lines(io.BytesIO(content.encode(encoding)), name="f", encoding=encoding) as lines:
            assert [lines.next_line() for _ in range(3)] == ["prix: 3 €\n".encode(), "café\n".encode(), b""]


def test_bytes_that_are_not_of_the_encoding_are_an_error_that_names_file_and_line() -> None:
    def read_all() -> None:
        file = io.BytesIO(b"ok\n" + b"x" * 300_000 + b"\xff\n")
        with reading_lines(file, name="log.txt", encoding="utf-8") as lines:
            while lines.next_line():
                pass

    with pytest.raises(InputError, match=r"^log\.txt:2: is not utf-8") as caught:
        read_all()
    assert "--encoding" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("encoding", "content", "line", "reason"),
    [
        ("utf-8", b"ok\n" * 700 + b"caf\xe9\n" + b"ok\n" * 700, 701, "invalid continuation byte"),
        ("utf-16-le", "ok\n€\nok\n".encode("utf-16-le") + b"\x00\xdc", 4, "illegal encoding"),
        ("utf-16", "ok\n".encode("utf-16-le"), 1, "does not start with BOM"),
        ("utf-7", b"ok\n+2AA-\n", 2, "surrogates not allowed"),
        ("unicode_escape", b"ok\nok\n\\ud800\n", 3, "surrogates not allowed"),
        ("iso2022_kr", b"ok\n\x1b$)C\x0e~", 2, ""),
    ],
)
def test_whatever_a_codec_says_of_them_file_and_line_are_named(
    encoding: str, content: bytes, line: int, reason: str
) -> None:
    """What a codec raises is no UnicodeDecodeError, or the text it made cannot be UTF-8: that was a traceback."""

    def read_all() -> None:
        with reading_lines(io.BytesIO(content), name="log.txt", encoding=encoding) as lines:
            while lines.next_line():
                pass

    with pytest.raises(InputError, match=rf"^log\.txt:{line}: is not {encoding}: .*{reason}") as caught:
        read_all()
    assert "--encoding" in str(caught.value.hint)


def test_reading_tells_how_many_bytes_came(tmp_path: os.PathLike[str]) -> None:
    told: list[int] = []
    with reading_lines(io.BytesIO(b"line\n" * 100_000), name="f", on_read=told.append) as lines:
        while lines.next_line():
            pass
    assert sum(told) == 500_000
