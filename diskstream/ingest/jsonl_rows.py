"""JSON lines: one object a line, each member a field.

A string becomes its text in UTF-8. Everything else (numbers, true, false, null, arrays, objects) keeps the very text it
was written with, so that `1.10` stays `1.10` and no digit of a long number is lost. Members keep their order, and a
name that is repeated becomes a repeated field. What `diskstream range --json` writes for a byte that is not UTF-8, a
lone surrogate from U+DC80 to U+DCFF, becomes that byte again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import UTF8_BOM, BadRow, Pairs, Row
from diskstream.plurals import number_of

_SPACE = re.compile(r"[ \t\r\n]*")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _no_number(text: str) -> None:
    """Numbers are taken as text: making a float of them would cost digits, and an int of ten thousand digits an age."""


_DECODER = json.JSONDecoder(parse_int=_no_number, parse_float=_no_number, parse_constant=_no_constant)


def jsonl_rows(lines: Lines) -> Iterator[Row | BadRow]:
    """The rows of a file of JSON objects, one a line. Blank lines are no rows."""
    return json_rows(lines, _members)


def json_rows(lines: Lines, pairs_of: Callable[[str], Pairs]) -> Iterator[Row | BadRow]:
    """The same; `pairs_of` makes fields of a line's text, or raises a ValueError that says what the line is."""
    while line := lines.next_line():
        number = lines.number
        if len(line) > lines.max_bytes:
            yield BadRow(number, f"is longer than {number_of(lines.max_bytes, 'byte')}", line)
            continue
        body = line.removeprefix(UTF8_BOM) if number == 1 else line
        try:
            # A long line is there twice while its fields are found, as bytes and as text, and not more often.
            text = body.decode("utf-8").strip(" \t\r\n")
            if not text:
                continue
            pairs = pairs_of(text)
        except json.JSONDecodeError as error:
            yield BadRow(number, f"is not JSON: {error.msg} (column {error.colno})", line)
        except UnicodeDecodeError as error:
            yield BadRow(number, f"is not UTF-8: {error.reason} (byte {error.start + 1})", line)
        except RecursionError:
            yield BadRow(number, "is nested too deeply", line)
        except ValueError as error:
            yield BadRow(number, str(error), line)
        else:
            yield Row(number, pairs, line)


def _members(text: str) -> Pairs:
    """The members of the object in `text`. Each value is parsed only to find where it ends."""
    if text[0] != "{":
        raise ValueError(f"is not a JSON object but begins with {text[0]!r}")
    pairs: Pairs = []
    at = _skip(text, 1)
    if text[at : at + 1] == "}":
        raise ValueError("is an object without members, and an entry needs at least one field")
    while True:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting a name in double quotes", text, at)
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':'", text, at)
        start = _skip(text, at + 1)
        value, at = _DECODER.raw_decode(text, start)
        pairs.append((encode(name), encode(value if isinstance(value, str) else text[start:at])))
        at = _skip(text, at)
        mark, at = text[at : at + 1], at + 1
        if mark == "}":
            break
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' or '}'", text, at - 1)
        at = _skip(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data after the object", text, at)
    return pairs


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def encode(text: str) -> bytes:
    """Text as UTF-8, in which a lone surrogate is the byte that it stands for."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return text.encode("utf-8", "surrogatepass")
