"""How far trims have asked that segments of a stream move out, where its rule moves on trim instead of removing.

The mark is a setting of the log, an ID as text: sealed segments whose entries are all below it are to go to cold
storage. It only rises, and only when a trim has passed a whole segment more, so that a producer which trims with each
entry writes one frame a segment. A rule that does not move on trim takes it away.
"""

import functools
from bisect import bisect_left

from diskstream._native import EntryID, segment_at
from diskstream.engine.log import StreamLog
from diskstream.errors import CorruptionError, InvalidIDError
from diskstream.ids import parse_id
from diskstream.membership import now_ms
from diskstream.retention_rule import MARK, RULE, RetentionRule

__all__ = ["mark_of", "moves_on_trim", "raise_mark"]


def moves_on_trim(log: StreamLog) -> bool:
    """Whether a trim of this stream moves instead of removing.

    Raises:
        NewerFormatError, CorruptionError: its rule cannot be read. What a later version lets it say of trims is not
            known: an earlier one that did not know `on_trim` removed for good what was to move.
    """
    value = log.native.setting(RULE)
    return value is not None and _says_so(value, str(log.directory))


@functools.lru_cache(maxsize=256)  # every trim asks, and a rule seldom changes
def _says_so(value: bytes, path: str) -> bool:
    return RetentionRule.unpack(value, path).on_trim


def mark_of(log: StreamLog) -> EntryID | None:
    """The mark; None where no trim has passed a segment.

    Raises:
        CorruptionError: it is no ID.
    """
    value = log.native.setting(MARK)
    if value is None:
        return None
    try:
        return parse_id(value.decode("ascii"))
    except (InvalidIDError, UnicodeDecodeError):
        raise CorruptionError(str(log.directory), "mark of trims", 0, "an ID", repr(value)) from None


def raise_mark(log: StreamLog, maxlen: int | None, minid: EntryID | None) -> None:
    """Notes, under the append lock, up to where a trim would have removed: by whole segments.

    Args:
        log: the stream's.
        maxlen: how many of the newest entries it would have kept.
        minid: the least ID that it would have kept, where `maxlen` is None.
    """
    views = log.segments.views()
    if minid is not None:
        passed = segment_at(views, minid)
    else:
        planned = log.native.plan_trim(maxlen or 0, False, 0)
        passed = 0 if planned is None else bisect_left(views, planned[0], key=lambda view: view.number)
    mark = views[passed - 1].last.next() if passed else None
    if mark is None:
        return
    known = mark_of(log)
    if known is None or mark > known:
        now, value = now_ms(log), str(mark).encode()
        log.retry(lambda: log.native.change([("setting", MARK, value)], now), held=True)
