"""How many of something, in words."""

__all__ = ["number_of"]


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
