"""What the streams of a store keep open together: the segments used last, and of those fetched back so many bytes."""

from typing import cast

import pytest

from diskstream._native import SealedSegment
from diskstream.engine import kept_open
from diskstream.engine.cold_cache import ColdCache
from diskstream.engine.kept_open import SharedCache


class Segment:
    """One that was fetched back."""

    def __init__(self, file_bytes: int) -> None:
        self.file_bytes = file_bytes


class Kept:
    """The cache, and the segments of one opening of a stream."""

    def __init__(self, limit_bytes: int) -> None:
        self.cache = SharedCache(0, ColdCache(limit_bytes=limit_bytes))
        self.owner = self.cache.new_owner()

    def put(self, number: int) -> None:
        """One that is here."""
        self.cache.put((self.owner, number, 0), cast("SealedSegment", Segment(1)))

    def fetch(self, number: int, file_bytes: int) -> None:
        """One that was away."""
        self.cache.put_fetched((self.owner, number, 0), cast("SealedSegment", Segment(file_bytes)))

    def use(self, number: int) -> None:
        assert self.cache.get((self.owner, number, 0)) is not None

    def numbers(self) -> set[int]:
        """Of those that are open. It uses them all."""
        return {number for number in range(100) if self.cache.get((self.owner, number, 0)) is not None}


def test_of_segments_fetched_back_those_used_last_stay_open_within_the_limit() -> None:
    kept = Kept(limit_bytes=30)
    kept.put(1)
    for number in (2, 3, 4):
        kept.fetch(number, 10)
    assert kept.numbers() == {1, 2, 3, 4}
    kept.use(2)
    kept.fetch(5, 15)
    assert kept.numbers() == {1, 2, 5}


def test_the_one_fetched_back_last_stays_open_however_large_it_is() -> None:
    kept = Kept(limit_bytes=30)
    kept.put(1)
    kept.fetch(2, 10)
    kept.fetch(3, 31)
    assert kept.numbers() == {1, 3}


def test_one_that_is_here_again_counts_no_more_as_fetched_back() -> None:
    kept = Kept(limit_bytes=30)
    kept.fetch(1, 20)
    kept.put(1)
    kept.fetch(2, 20)
    assert kept.numbers() == {1, 2}


def test_one_that_was_closed_for_others_counts_no_more_as_fetched_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_open, "_MAX_OPEN", 2)
    kept = Kept(limit_bytes=30)
    kept.fetch(1, 20)
    kept.put(2)
    kept.put(3)
    kept.fetch(4, 10)
    assert kept.numbers() == {3, 4}
    kept.fetch(5, 20)
    assert kept.numbers() == {4, 5}


def test_what_somebody_opens_for_a_stream_that_was_closed_is_not_kept() -> None:
    kept = Kept(limit_bytes=30)
    kept.put(1)
    kept.cache.end_owner(kept.owner)
    kept.put(2)
    kept.fetch(3, 1)
    assert kept.numbers() == set()
