"""How many of something, in words."""

__all__ = ["number_of", "rate_of"]


def number_of(count: int, one: str, many: str | None = None) -> str:
    """So many of something: `1 entry`, `2,000 entries`.

    Args:
        count: how many.
        one: what follows a count of 1: a noun, or what ends with one.
        many: what follows all others; where it is not given, the regular plural of `one`.
    """
    if count == 1:
        return f"1 {one}"
    plural = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {plural if many is None else many}"


def rate_of(count: int, seconds: float, one: str) -> str:
    """So many of something a second, rounded: `1 entry/s`, `2,000 entries/s`.

    Args:
        count: how many there were in all.
        seconds: how long it took; below a microsecond it counts as one.
        one: what follows a rate of 1.
    """
    return f"{number_of(round(count / max(seconds, 1e-6)), one)}/s"
