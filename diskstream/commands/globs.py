"""Redis's glob patterns: ``*``, ``?``, ``[abc]``, ``[^a-c]``, and a backslash before what stands for itself."""

import re

from diskstream.commands.replies import Failure

__all__ = ["glob"]

# Four times the longest name of a stream; `re` keeps the last 512, and takes milliseconds for one of this length.
_MAX_BYTES = 16 << 10


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """A character class that begins behind ``[``, as a regular expression, and where it ends; as Redis reads it."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    parts: list[bytes] = []
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            at += 1
            parts.append(re.escape(pattern[at : at + 1]))
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            parts.append(b"%s-%s" % (re.escape(bytes([low])), re.escape(bytes([high]))))
            at += 2
        else:
            parts.append(re.escape(pattern[at : at + 1]))
        at += 1
    if not parts:
        return (b"." if negated else b"(?!)"), at + 1
    return b"[%s%s]" % (b"^" if negated else b"", b"".join(parts)), at + 1


def glob(pattern: bytes) -> re.Pattern[bytes]:
    """The regular expression of a pattern, for `fullmatch`.

    Raises:
        Failure: it is too long.
    """
    if len(pattern) > _MAX_BYTES:
        raise Failure(f"ERR a pattern of {len(pattern)} bytes is over the limit of {_MAX_BYTES}")
    # What stands between two stars is of one length: its first place is as good as any, and none other is tried. So a
    # match takes the product of both lengths at worst, and not their power.
    parts: list[bytes] = []
    stars, at = 0, 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            if parts[-1:] != [b".*?"]:
                stars += 1
                parts += [b")(?>" if stars > 1 else b"(?>", b".*?"]
        elif char == b"?":
            parts.append(b".")
        elif char == b"[":
            part, at = _class(pattern, at)
            parts.append(part)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            parts.append(re.escape(char))
    if stars:
        last = len(parts) - parts[::-1].index(b".*?") - 2  # behind the last star anything goes, up to the end
        parts[last : last + 2] = [b")" if stars > 1 else b"", b".*"]
    return re.compile(b"".join(parts), re.DOTALL)
