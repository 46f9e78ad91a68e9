"""The text of INFO as a dictionary, as redis-py gives it."""

from typing import Any

__all__ = ["facts_of_info"]


def facts_of_info(text: str) -> dict[str, Any]:
    """Names and values of all sections: numbers as numbers, ``a=1,b=2`` as a dictionary, ``a,b`` as a list."""
    facts: dict[str, Any] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon:
            facts.setdefault("__raw__", []).append(line)
        elif name == "module":
            facts.setdefault("modules", []).append(_value(value))
        else:
            facts[name] = _value(value)
    return facts


def _value(text: str) -> Any:
    if "=" in text:
        facts: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = part.rpartition("=")
            facts.update({name: _value(value)} if equals else {value: True})
        return facts
    if "," in text:
        return [_value(part) for part in text.split(",") if part]
    for kind in (float,) if "." in text else (int,):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
