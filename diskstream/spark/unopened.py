"""Streams that do not open, as their log's header is damaged: how a streaming read passes over them."""

from diskstream.ids import MAX_ID, MIN_ID, EntryID
from diskstream.spark.losses import fault_of
from diskstream.spark.options import ReadOptions
from diskstream.spark.tasks import report_skipped
from diskstream.stream import Stream

__all__ = ["Unopened"]


class Unopened:
    """Tells which streams do not open and are to be passed over, and reports each of them once.

    A query keeps its place in such a stream: it goes on from there once the stream is repaired.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Has reported none yet.

        Args:
            options: of the read.
        """
        self._options = options
        self._reported: set[bytes] = set()

    def has(self, stream: Stream, after: EntryID = MIN_ID) -> bool:
        """Whether a stream is passed over; never where damage is an error.

        Args:
            stream: as it is now.
            after: how far it was read.
        """
        if self._options.on_corruption == "fail":
            return False
        fault = fault_of(stream)
        if fault is None:
            self._reported.discard(stream.name)  # repaired: if it is damaged again, that is another loss
            return False
        if stream.name not in self._reported:
            self._reported.add(stream.name)
            report_skipped(stream.name, (after.next() or MAX_ID, MAX_ID), fault, self._options)
        return True
