"""Claiming in passing within a limit of bytes: what would be more stays whosever it is, and the cursor leads to it."""

import pytest

from diskstream import ArgumentError, Group, Store


@pytest.fixture
def group(store: Store) -> Group:
    """Entries of a hundred bytes, the fourth of a thousand, all of them pending with `a`; the second is deleted."""
    stream = store.stream("s")
    for number in range(1, 7):
        stream.add({"f": "x" * (999 if number == 4 else 99)}, f"{number}-0")
    group = stream.group("g", start="0")
    group.consumer("a").read(count=10)
    stream.delete("2-0")
    return group


@pytest.mark.parametrize(
    ("max_bytes", "wanted"),
    [
        (1, [[1], [3], [4], [5], [6]]),  # one is always given, lest nobody get on
        (199, [[1], [3], [4], [5], [6]]),
        (200, [[1, 3], [4], [5, 6]]),
        (1200, [[1, 3, 4], [5, 6]]),
        (1 << 62, [[1, 3, 4, 5, 6]]),
        (None, [[1, 3, 4, 5, 6]]),
    ],
)
def test_each_call_ends_before_the_entry_that_would_be_too_much(
    group: Group, max_bytes: int | None, wanted: list[list[int]]
) -> None:
    taker, cursor, pieces, gone = group.consumer("b"), "-", [], []
    while cursor != "0-0":
        claimed = taker.autoclaim(0, cursor, max_bytes=max_bytes)
        pieces.append([entry.id.ms for entry in claimed.entries])
        gone += [entry_id.ms for entry_id in claimed.deleted]
        assert group.pending().consumers.get(b"b") == sum(map(len, pieces))
        cursor = str(claimed.cursor)
    assert (pieces, gone) == (wanted, [2])


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_no_bytes_at_all_are_refused(group: Group, max_bytes: int) -> None:
    with pytest.raises(ArgumentError, match=r"^max_bytes must be > 0$"):
        group.consumer("b").autoclaim(0, max_bytes=max_bytes)
    assert group.pending().consumers == {b"a": 6}
