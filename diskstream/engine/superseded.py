"""Files that a compaction was made of: they are of no use where its outcome is there, and else all that is left of it.

A copy that was made by hand beside a compaction may have its inputs, and the log that lists its outcome, and not that.
"""

from collections.abc import Collection, Mapping

from diskstream.engine import names

__all__ = ["compacted_and_lost", "is_of_use"]


def compacted_and_lost(listed: Mapping[int, int], present: Collection[str]) -> list[int]:
    """The numbers of compacted segments of which there is neither a file nor a stub: nearly always none.

    Args:
        listed: generations by number.
        present: the names in the stream's directory.
    """
    compacted = {number: generation for number, generation in listed.items() if generation}
    if not compacted:
        return []
    here = {parsed[1:] for name in present if (parsed := names.parse_file(name)) is not None}
    return [number for number in compacted if (number, compacted[number]) not in here]


def is_of_use(number: int, generation: int, listed: Mapping[int, int], lost: Collection[int]) -> bool:
    """Whether a file that is not listed may hold entries of a segment that is lost.

    A compaction takes the number of its first input, and its inputs are neighbours: what is not listed any more went
    into the last listed segment of no greater number, unless a trim or a delete took all of it.

    Args:
        number, generation: of the file.
        listed: generations by number.
        lost: as `compacted_and_lost`.
    """
    if not lost:
        return False
    taker = max((each for each in listed if each <= number), default=None)
    return taker in lost and (taker != number or generation < listed[number])
