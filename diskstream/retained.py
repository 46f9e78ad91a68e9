"""What a stream does for its retention: setting the rule, showing it, applying it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from diskstream.counts import check_count
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError, ArgumentTypeError, NoSuchStreamError, ReadOnlyError
from diskstream.membership import looked, now_ms
from diskstream.moving_out import check_mover, move
from diskstream.references import KEEPREF
from diskstream.retaining import DEFAULT_LIMIT, RetentionReport, memory_of, preview, step
from diskstream.retention_rule import RetentionRule, rule_of, write_rule

if TYPE_CHECKING:
    from diskstream.store import Store
    from diskstream.stream import Stream

__all__ = ["Retained"]

_T = TypeVar("_T")


class Retained:
    """The part of `Stream` that deals with retention."""

    _store: "Store"
    _name: bytes

    if TYPE_CHECKING:

        def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T: ...
        def _self(self) -> Stream: ...

    @property
    def retention(self) -> RetentionRule | None:
        """The rule by which the stream is kept; None where everything is.

        Raises:
            NoSuchStreamError: there is no stream.
            NewerFormatError: a later version of diskstream has set it.
        """
        found: tuple[RetentionRule | None] | None = self._use(
            lambda log: looked(log, lambda log: (rule_of(log),)), None
        )
        if found is None:
            raise NoSuchStreamError(self._name)
        return found[0]

    def set_retention(
        self,
        *,
        max_age_ms: int | None = None,
        max_bytes: int | None = None,
        max_entries: int | None = None,
        ref: str = KEEPREF,
        to: str | None = None,
        on_trim: bool = False,
    ) -> RetentionRule:
        """Sets the rule by which the stream is kept, in the place of the one before; durable on return.

        Every process that has the stream open for writing applies it from now on: see `Options.retention_interval_ms`.
        `preview_retention` says beforehand what would go.

        Args:
            max_age_ms, max_bytes, max_entries, ref, to, on_trim: see `RetentionRule`.

        Raises:
            ArgumentError: see `RetentionRule`; or this installation cannot move to that place.
            NoSuchStreamError: there is no stream.
            RemoteError: the folder of a place on a disk cannot be made.
            StorageError: the disk said no.
        """
        rule = RetentionRule(
            max_age_ms=max_age_ms, max_bytes=max_bytes, max_entries=max_entries, ref=ref, to=to, on_trim=on_trim
        )
        if to is not None:
            check_mover(self._self(), to)
        self._set_rule(rule)
        return rule

    def clear_retention(self) -> bool:
        """Takes the rule away: everything is kept from now on. Returns whether there was one; durable on return.

        Nothing is removed any more once this has returned, in any process.

        Raises:
            NoSuchStreamError: there is no stream.
            StorageError: the disk said no.
        """
        return self._set_rule(None)

    def _set_rule(self, rule: RetentionRule | None) -> bool:
        if self._store.read_only:
            raise ReadOnlyError(str(self._store.path))
        done: bool | None = self._use(write_rule(rule), None)
        if done is None:
            raise NoSuchStreamError(self._name)
        self._use(self._store._retainer.notice, None)  # a stream is part of its store
        return done

    def apply_retention(self, *, limit: int | None = None, dry_run: bool = False) -> RetentionReport:
        """Does one step of what the rule asks for; `more` in the report says whether there is another to do.

        The clock is believed here, even right after it was set. Producers wait for a step at most.

        Args:
            limit: entries of the step, at most; 4096 where not given. With KEEPREF a step may go on to the end of the
                segment.
            dry_run: say what all steps together would do, and do nothing.

        Returns:
            What was done; nothing where there is no rule.

        Raises:
            NoSuchStreamError: there is no stream.
            ArgumentError: no such limit; or this installation cannot move to cold storage.
            ReadOnlyError: the store is open for reading only, and it is no `dry_run`.
            RemoteError, StorageError, CorruptionError: something is left to do that cannot be done now.
        """
        most = DEFAULT_LIMIT if limit is None else check_count("limit", limit)
        if most < 1:
            raise ArgumentError(f"limit must be at least 1, not {most}")
        if self._store.read_only and not dry_run:
            raise ReadOnlyError(str(self._store.path))

        def apply(log: StreamLog) -> RetentionReport:
            log.refresh()
            rule = rule_of(log)
            if rule is None:
                return RetentionReport()
            if rule.to is not None:
                memory = memory_of(log)
                with memory.mutex:
                    return RetentionReport(moved=move(self._self(), log, rule, now_ms(log), memory, dry_run=dry_run))
            return preview(log, rule) if dry_run else step(log, limit=most)

        found: RetentionReport | None = self._use(apply, None)
        if found is None:
            raise NoSuchStreamError(self._name)
        return found

    def preview_retention(self, rule: RetentionRule) -> RetentionReport:
        """What a rule would remove now if it were set, or move if it names a place; nothing is changed.

        Raises:
            NoSuchStreamError: there is no stream.
            ArgumentError: it is no rule; or this installation cannot move to cold storage.
            RemoteError, CorruptionError: it cannot be said.
        """

        if not isinstance(rule, RetentionRule):
            raise ArgumentTypeError(f"rule is a RetentionRule, not {rule!r}")

        def look(log: StreamLog) -> RetentionReport:
            if rule.to is None:
                return preview(log, rule)
            moved = move(self._self(), log, rule, now_ms(log), replace(memory_of(log)), dry_run=True)
            return RetentionReport(moved=moved)

        found: RetentionReport | None = self._use(look, None)
        if found is None:
            raise NoSuchStreamError(self._name)
        return found
