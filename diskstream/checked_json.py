"""JSON objects that carry a checksum of themselves: small files that say how far work has come, and are believed.

The member ``check`` is the SHA-256, in hexadecimal, of the object without it, written with sorted names and no blanks.
"""

import hashlib
import json
from typing import Any

__all__ = ["check_of", "checked", "is_whole", "with_check"]

_NAME = "check"


def check_of(facts: dict[str, Any]) -> str:
    """The checksum of an object that has none yet."""
    body = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()


def with_check(facts: dict[str, Any]) -> dict[str, Any]:
    """The object with its checksum."""
    return {**facts, _NAME: check_of(facts)}


def is_whole(facts: dict[str, Any]) -> bool:
    """Whether an object is what was written, as far as it says: one without a checksum is of an earlier version."""
    return _NAME not in facts or check_of({name: facts[name] for name in facts if name != _NAME}) == facts[_NAME]


def checked(text: str | bytes) -> dict[str, Any]:
    """The object that a text holds, without its checksum.

    Raises:
        ValueError: it is no object, or not what was written.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not is_whole(found):
        raise ValueError("it is no object, or its checksum is another one")
    found.pop(_NAME, None)
    return found
