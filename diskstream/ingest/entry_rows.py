"""Entries as JSON lines, as `diskstream export`, `range --json` and `tail --json` write them: IDs, and every byte.

    {"id": "5-1", "fields": {"a": "1"}}        and `"pairs": [["a", "1"], ["a", "2"]]` where a name is repeated

The first field of a row is its ID, under the name `id`. Other members, such as `stream`, mean nothing here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from diskstream.ingest.jsonl_rows import encode, json_rows
from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import BadRow, Pairs, Row

ID_FIELD = b"id"
_WHOLE_ID = re.compile(r"\d+-\d+", re.ASCII)


def entry_rows(lines: Lines) -> Iterator[Row | BadRow]:
    """The rows of a file of entries, one a line. Blank lines are no rows."""
    return json_rows(lines, _pairs)


def is_exported(line: bytes) -> bool:
    """Whether a line is an entry as an export writes it, and hardly anything else: nothing is missing or too much."""
    try:
        entry = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(entry, dict) or not {"id", "fields"} <= entry.keys() <= {"id", "fields", "pairs", "stream"}:
        return False
    is_id = isinstance(entry["id"], str) and _WHOLE_ID.fullmatch(entry["id"]) is not None
    fields = entry["fields"]
    return is_id and isinstance(fields, dict) and all(isinstance(value, str) for value in fields.values())


class _Members(dict[str, Any]):
    """An object, with its members as they stand there: a name may come twice."""

    pairs: list[tuple[str, Any]]


def _members(pairs: list[tuple[str, Any]]) -> _Members:
    found = _Members(pairs)
    found.pairs = pairs
    return found


def _pairs(text: str) -> Pairs:
    entry: Any = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_members)
    if not isinstance(entry, dict) or "id" not in entry or not ("fields" in entry or "pairs" in entry):
        raise ValueError('is no entry: that is an object with "id" and "fields"')
    found: Any = entry.get("pairs")
    if found is None:
        fields = entry["fields"]
        found = fields.pairs if isinstance(fields, _Members) else None
    if not isinstance(entry["id"], str) or not (found is not None and all(_is_pair(pair) for pair in found)):
        raise ValueError("is no entry: its ID, and names and values of its fields, are strings")
    pairs = [(encode(name), encode(value)) for name, value in found]
    if not pairs:
        raise ValueError("is an entry without fields, and an entry needs at least one")
    return [(ID_FIELD, encode(entry["id"])), *pairs]


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)  # noqa: PLR2004  # what a pair is
