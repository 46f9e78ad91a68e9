"""Streams' names as text: what options, offsets and the column `stream` hold."""

import re

__all__ = ["as_bytes", "as_text", "value_as_text"]

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of a byte that is not


def as_text(name: bytes) -> str:
    """A name as text: UTF-8, where ``%`` and every byte that is not UTF-8 become ``%XX``."""
    return value_as_text(name.replace(b"%", b"%25"))


def value_as_text(value: bytes) -> str:
    """A field's value to be shown: itself where it is UTF-8. Bytes that are not become ``%XX``, with no way back."""
    text = value.decode("utf-8", "surrogateescape")
    return _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def as_bytes(text: str) -> bytes:
    """The name that stands for `text`; the way back from `as_text`."""
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogateescape"))
