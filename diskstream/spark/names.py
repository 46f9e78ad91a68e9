"""Streams' names as text: what options, offsets and the column `stream` hold."""

import re

__all__ = ["as_bytes", "as_text", "value_as_text"]

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of a byte that is not


def as_text(name: bytes) -> str:
    """A name as text: UTF-8, where ``%`` and every byte that is not UTF-8 become ``%XX``."""
    text = name.replace(b"%", b"%25").decode("utf-8", "surrogateescape")
    return _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def value_as_text(value: bytes) -> str:
    """A field's value to be shown: itself where it is UTF-8, percent signs and all; else as a name.

    So what is text stays what it is, and the text ``%FF`` is shown as the byte FF is.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return as_text(value)


def as_bytes(text: str) -> bytes:
    """The name that stands for `text`; the way back from `as_text`."""
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogateescape"))
