"""The rule of a stream's retention: how much is kept, what becomes of the rest, and how the log holds it."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from diskstream._native import MAX_SETTING_BYTES
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError, ArgumentTypeError, CorruptionError, LimitError, NewerFormatError
from diskstream.membership import now_ms
from diskstream.redis_link import shown
from diskstream.references import KEEPREF, check_ref

__all__ = ["MARK", "RULE", "RetentionRule", "rule_of", "write_rule"]

RULE = b"retention"  # the name of the setting
MARK = b"retention-mark"  # of that which says how far trims have come where the rule moves on trim
_MOST = 2**63 - 1  # of each limit
_SECRET = ("secret", "password", "token", "key", "credential")


def _check_limit(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is an int or None, not {value!r}")
    if not 1 <= value <= _MOST:
        raise ArgumentError(f"{name} must be between 1 and {_MOST}, or None for no such limit; not {value}")


def _check_place(to: object) -> None:
    """Refuses what is no place for segments, and what holds a secret: the log keeps it, and so do copies of it."""
    if not isinstance(to, str):
        raise ArgumentTypeError(f"to is a URL or None, not {to!r}")
    try:
        parts = urlsplit(to)
        names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError as error:
        raise ArgumentError(f"to is no URL that can be read: {error}") from None
    if parts.scheme not in ("s3", "file"):
        raise ArgumentError(f"to must be s3://BUCKET/PREFIX or file:///FOLDER, not {shown(to)}")
    if "@" in parts.netloc or any(word in name for word in _SECRET for name in names):
        raise ArgumentError(
            "to must not hold a user, a password or a key: the log keeps it; give them to the process that moves, "
            "by its environment"
        )
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise ArgumentError(f"a folder is named as file:///FOLDER, not {shown(to)}")
    if parts.scheme == "s3" and not parts.netloc:
        raise ArgumentError(f"a bucket is named as s3://BUCKET/PREFIX, not {shown(to)}")
    if not to.isprintable():
        raise ArgumentError("to holds a character that cannot be printed")


@dataclass(frozen=True, kw_only=True)
class RetentionRule:
    """What is kept of a stream; what is beyond any of the limits goes, the oldest first.

    Attributes:
        max_age_ms: entries whose ID is older than so many milliseconds go.
        max_bytes: so many bytes of the newest entries are kept, as they lie in the stream's files.
        max_entries: so many of the newest entries are kept.
        ref: what of groups: ``KEEPREF`` leaves what is pending pending, ``DELREF`` ends it, ``ACKED`` spares what some
            group was not given yet or has not acknowledged.
        to: where sealed segments are moved to, ``s3://BUCKET/PREFIX`` or ``file:///FOLDER``, instead of being removed.
        on_trim: trims, by XTRIM and with adds, remove nothing: the sealed segments that they would have taken whole
            are moved as well.

    Raises:
        ArgumentTypeError: a value of the wrong kind.
        ArgumentError: none of the limits, one out of range, or things that exclude each other.
        LimitError: a URL that is too long.
    """

    max_age_ms: int | None = None
    max_bytes: int | None = None
    max_entries: int | None = None
    ref: str = KEEPREF
    to: str | None = None
    on_trim: bool = False

    def __post_init__(self) -> None:
        """Checks every value."""
        for name in ("max_age_ms", "max_bytes", "max_entries"):
            _check_limit(name, getattr(self, name))
        if not isinstance(self.on_trim, bool):
            raise ArgumentTypeError(f"on_trim is a bool, not {self.on_trim!r}")
        if self.on_trim and self.to is None:
            raise ArgumentError("on_trim is for a rule that moves: say where to, with `to`")
        if self.max_age_ms is None and self.max_bytes is None and self.max_entries is None and not self.on_trim:
            raise ArgumentError("give one of max_age_ms, max_bytes and max_entries; clear_retention() keeps everything")
        check_ref(self.ref)
        if self.to is not None:
            _check_place(self.to)
            if self.ref != KEEPREF:
                raise ArgumentError(
                    f"ref={self.ref} is for entries that are removed; those moved to cold storage stay readable"
                )
        if len(self.packed) > MAX_SETTING_BYTES:
            raise LimitError("a rule of retention", MAX_SETTING_BYTES, len(self.packed))

    def __str__(self) -> str:
        """The rule in a line, without what may be secret."""
        given = {**asdict(self), "to": None if self.to is None else shown(self.to), "on_trim": self.on_trim or None}
        return ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)

    @property
    def packed(self) -> bytes:
        """As the log holds it: see docs/format/groups.md."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        return json.dumps(given, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, value: bytes, path: str) -> Self:
        """The rule that the log of `path` holds.

        Raises:
            NewerFormatError: it says more than this version knows: nothing may go by a part of it.
            CorruptionError: it is none.
        """

        def fault(found: object) -> CorruptionError:
            return CorruptionError(path, "rule of retention", 0, "a JSON object as set_retention writes it", str(found))

        try:
            given: Any = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise fault(error) from None
        if not isinstance(given, dict):
            raise fault(type(given).__name__)
        unknown = sorted(given.keys() - cls.__dataclass_fields__.keys())
        if unknown:
            words = f"a rule of retention says {unknown[0]!r}"
            raise NewerFormatError(path, "a rule of retention", 1, unknown[0], words)
        try:
            return cls(**given)
        except ArgumentError as error:
            raise fault(error) from None


def rule_of(log: StreamLog) -> RetentionRule | None:
    """The rule as the log has it here and now; None where there is none.

    Raises:
        NewerFormatError, CorruptionError: it cannot be read.
    """
    value = log.native.setting(RULE)
    return None if value is None else RetentionRule.unpack(value, str(log.directory))


def write_rule(rule: RetentionRule | None) -> Callable[[StreamLog], bool]:
    """What sets the rule of a log, or takes it away, durable on return. It returns whether that changed something.

    Raises:
        LimitError: other settings leave no room.
        StorageError: the disk said no.
    """
    value = b"" if rule is None else rule.packed
    marks = rule is not None and rule.on_trim

    def write(log: StreamLog) -> bool:
        with log.locked():
            log.prepare()
            changed = (log.native.setting(RULE) or b"") != value
            if changed:
                now = now_ms(log)
                records = [("setting", RULE, value)]
                if not marks and log.native.setting(MARK) is not None:
                    records.append(("setting", MARK, b""))
                log.retry(lambda: log.native.change(records, now), held=True)
        log.flush()
        return changed

    return write
