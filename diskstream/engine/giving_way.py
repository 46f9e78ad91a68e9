"""A damaged segment gives way to what is left of it, or leaves the list: by frames that all who read the log follow."""

from diskstream._native import SegmentView
from diskstream.engine.log import StreamLog
from diskstream.engine.salvage_state import now_ms

__all__ = ["give_way"]


def give_way(log: StreamLog, view: SegmentView, output: SegmentView) -> None:
    """Lets `output` take the place of a listed segment, durably.

    Lost entries still count as added, and no group will ever read them: the lag of those that are still before them
    would be too great by as many, for good. So how many these have read is taken away, before the entries are.

    Raises:
        StorageError: the disk said no; the segment is listed as before, or as it is to be.
    """
    with log.locked():
        log.prepare()
        if output.live != view.live:
            behind = [
                ("position", number, last, None)
                for number, _, last, read, *_ in log.native.groups()
                if read is not None and last < view.last
            ]
            if behind:
                log.retry(lambda: log.native.change(behind, now_ms()), held=True)
        log.retry(lambda: log.native.replace([view.number], output), held=True)
    log.flush()
    log.segments.forget(view.number, view.generation)
