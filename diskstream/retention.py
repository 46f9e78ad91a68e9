"""What a trim keeps: a number of entries, or everything from an ID on."""

from dataclasses import dataclass
from typing import Self

from diskstream.counts import check_count
from diskstream.engine import trimming
from diskstream.engine.fetching import fetch_ahead
from diskstream.engine.log import StreamLog
from diskstream.engine.page import POISONED
from diskstream.errors import (
    ArgumentError,
    CorruptionError,
    DiskFullError,
    LimitError,
    NewerFormatError,
    RemoteError,
    StorageError,
)
from diskstream.ids import EntryID, IDLike, parse_id
from diskstream.references import DELREF, KEEPREF, check_ref, is_any_pending, trim
from diskstream.trim_marks import moves_on_trim, raise_mark

__all__ = ["Trim"]


@dataclass(frozen=True)
class Trim:
    """A checked trimming strategy: `maxlen` or `minid`, exact or in whole runs of entries."""

    maxlen: int | None
    minid: EntryID | None
    approximate: bool
    limit: int | None
    ref: str = KEEPREF

    @classmethod
    def parse(
        cls,
        maxlen: int | None,
        minid: IDLike | None,
        approximate: bool,
        limit: int | None,
        ref: str = KEEPREF,
    ) -> Self | None:
        """Checks the five options of XADD and XTRIM; None where they ask for nothing.

        Raises:
            ArgumentError: they contradict each other or are out of range, in the words of Redis.
        """
        for name, value in (("MAXLEN", maxlen), ("LIMIT", limit)):
            if value is not None:
                check_count(name, value)
        check_ref(ref)
        if maxlen is not None and minid is not None:
            raise ArgumentError("syntax error, MAXLEN and MINID options at the same time are not compatible")
        if limit is not None and limit < 0:
            raise ArgumentError("The LIMIT argument must be >= 0.")
        if maxlen is None and minid is None:
            if limit is not None:
                raise ArgumentError("syntax error, LIMIT cannot be used without specifying a trimming strategy")
            return None
        if maxlen is not None and maxlen < 0:
            raise ArgumentError("The MAXLEN argument must be >= 0.")
        if limit is not None and not approximate:
            raise ArgumentError("syntax error, LIMIT cannot be used without the special ~ option")
        return cls(
            maxlen,
            None if minid is None else parse_id(minid),
            approximate,
            limit,
            ref,
        )

    def fetch_ahead(self, log: StreamLog) -> None:
        """Before the append lock is taken: what the trim will read is fetched, where it is cold.

        Raises:
            RemoteError: a storage does not answer, or has an object no more; nothing was appended or trimmed.
            NewerFormatError, CorruptionError: the stream's rule cannot be read; likewise.
        """
        if moves_on_trim(log):
            return
        if self.minid is not None:
            if not self.approximate or self.ref != KEEPREF:
                fetch_ahead(log, [self.minid])
        elif self.ref == DELREF and is_any_pending(log):
            view = trimming.first_kept(log, self.maxlen or 0)
            if view is not None:  # what is pending below the first entry goes too: which one is that?
                fetch_ahead(log, [view.first])

    def apply_behind(self, log: StreamLog) -> None:
        """The same behind an append: who was told of an error would add again what is there.

        Where there is no room for the trim, or what it looks at cannot be read just now, be it in a storage that does
        not answer, the next append trims; where a later version has just set a rule, it is refused before it adds. What
        is damaged keeps its entries until a repair: readers, `trim` and `verify` tell of it.

        Raises:
            StorageError: a write or a flush failed, and nobody may go on with the stream.
        """
        try:
            self.apply(log)
        except (StorageError, RemoteError, LimitError, NewerFormatError, CorruptionError) as error:
            if log.ctl.flags & POISONED and not isinstance(error, DiskFullError):
                raise

    def apply(self, log: StreamLog) -> int:
        """Trims a stream whose append lock is held. Returns how many entries went.

        None do where the stream's rule moves on trim: then it is noted how far segments are to move.
        """
        if moves_on_trim(log):
            raise_mark(log, self.maxlen, self.minid)
            return 0
        if self.ref != KEEPREF:
            return trim(log, self.maxlen, self.minid, self.ref)
        if self.minid is not None:
            return trimming.trim_below(log, self.minid, approximate=self.approximate, limit=self.limit)
        keep = self.maxlen or 0
        return trimming.trim_to_length(log, keep, approximate=self.approximate, limit=self.limit)
