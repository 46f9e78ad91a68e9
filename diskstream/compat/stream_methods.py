"""redis-py's methods for streams, without those for consumer groups."""

from typing import Any, Literal

from diskstream.compat.calling import Answer, Calling, check, check_count, check_policy, is_count
from diskstream.compat.errors import DataError

__all__ = ["StreamMethods", "read_words", "stream_words"]

_Policy = Literal["KEEPREF", "DELREF", "ACKED"]


class StreamMethods(Calling):
    """Names, arguments and checks are redis-py's."""

    def xadd(
        self,
        name: Any,
        fields: dict[Any, Any],
        id: Any = "*",
        maxlen: int | None = None,
        approximate: bool = True,
        nomkstream: bool = False,
        minid: Any = None,
        limit: int | None = None,
        ref_policy: _Policy | None = None,
        idmpauto: str | None = None,
        idmp: tuple[str, bytes] | None = None,
    ) -> Answer:
        """Adds an entry. Returns its ID; None where there is no stream and `nomkstream` forbids to make one.

        Raises:
            DataError: the arguments contradict each other.
        """
        if maxlen is not None and minid is not None:
            raise DataError("Only one of ```maxlen``` or ```minid``` may be specified")
        if idmpauto is not None and idmp is not None:
            raise DataError("Only one of ```idmpauto``` or ```idmp``` may be specified")
        if (idmpauto is not None or idmp is not None) and id != "*":
            raise DataError("IDMPAUTO and IDMP can only be used with id='*'")
        words: list[Any] = ["NOMKSTREAM"] if nomkstream else []
        if ref_policy is not None:
            check_policy(ref_policy, "XADD")
            words.append(ref_policy)
        if idmpauto is not None:
            words += ["IDMPAUTO", idmpauto]
        if idmp is not None:
            check(_is_pair(idmp), "XADD idmp must be a tuple of (producer_id, idempotent_id)")
            words += ["IDMP", *idmp]
        if maxlen is not None:
            check(is_count(maxlen), "XADD maxlen must be non-negative integer")
        words += _trim(maxlen, minid, limit, approximate=approximate)
        check(_is_full(fields), "XADD fields must be a non-empty dict")
        return self.execute_command("XADD", name, *words, id, *(word for pair in fields.items() for word in pair))

    def xcfgset(self, name: Any, idmp_duration: int | None = None, idmp_maxsize: int | None = None) -> Answer:
        """Sets for how many seconds, and how many of each producer, messages are remembered. Returns ``OK``.

        Raises:
            DataError: neither is given, or one is out of range.
        """
        if idmp_duration is None and idmp_maxsize is None:
            raise DataError("XCFGSET requires at least one of idmp_duration or idmp_maxsize")
        words: list[Any] = []
        for value, most, what in ((idmp_duration, 300, "idmp_duration"), (idmp_maxsize, 1_000_000, "idmp_maxsize")):
            if value is None:
                continue
            check(_is_within(value, most), f"XCFGSET {what} must be an integer between 1 and {most:,}")
            words += [what.upper().replace("_", "-"), value]
        return self.execute_command("XCFGSET", name, *words)

    def xdel(self, name: Any, *ids: Any) -> Answer:
        """Deletes entries. Returns how many there were."""
        return self.execute_command("XDEL", name, *ids)

    def xdelex(self, name: Any, *ids: Any, ref_policy: _Policy = "KEEPREF") -> Answer:
        """Deletes entries as `ref_policy` says. Returns for each ID 1 (deleted), -1 (none) or 2 (still referred to).

        Raises:
            DataError: no ID, or no such policy.
        """
        if not ids:
            raise DataError("XDELEX requires at least one message ID")
        check_policy(ref_policy, "XDELEX")
        return self.execute_command("XDELEX", name, ref_policy, "IDS", len(ids), *ids)

    def xinfo_stream(self, name: Any, full: bool = False) -> Answer:
        """What there is to say of a stream, as a dictionary; with its entries and groups where `full`."""
        if full:
            return self.execute_command("XINFO STREAM", name, "FULL", full=True)
        return self.execute_command("XINFO STREAM", name)

    def xlen(self, name: Any) -> Answer:
        """How many entries there are."""
        return self.execute_command("XLEN", name)

    def xrange(self, name: Any, min: Any = "-", max: Any = "+", count: int | None = None) -> Answer:  # noqa: A002  # redis-py's names
        """Entries from `min` to `max`, as (ID, fields).

        Raises:
            DataError: `count` is no positive number.
        """
        return self.execute_command("XRANGE", name, min, max, *_count(count, "XRANGE"))

    def xrevrange(self, name: Any, max: Any = "+", min: Any = "-", count: int | None = None) -> Answer:  # noqa: A002  # redis-py's names
        """Entries from `max` down to `min`, as (ID, fields).

        Raises:
            DataError: `count` is no positive number.
        """
        return self.execute_command("XREVRANGE", name, max, min, *_count(count, "XREVRANGE"))

    def xread(
        self,
        streams: dict[Any, Any],
        count: int | None = None,
        block: int | None = None,
        max_count: int | None = None,
        max_size: int | None = None,
    ) -> Answer:
        """Entries behind an ID in each of several streams, waiting `block` ms (0: for ever) where there are none.

        Returns:
            ``[[name, [(ID, fields), ...]], ...]``, or ``{name: [[(ID, fields), ...]]}`` with protocol 3.

        Raises:
            DataError: a number is out of range, or there are no streams.
        """
        words = read_words("XREAD", count=count, block=block, max_count=max_count, max_size=max_size)
        return self.execute_command("XREAD", *words, *stream_words("XREAD", streams))

    def xtrim(
        self,
        name: Any,
        maxlen: int | None = None,
        approximate: bool = True,
        minid: Any = None,
        limit: int | None = None,
        ref_policy: _Policy | None = None,
    ) -> Answer:
        """Removes the oldest entries. Returns how many.

        Raises:
            DataError: not one of `maxlen` and `minid`, or no such policy.
        """
        if maxlen is not None and minid is not None:
            raise DataError("Only one of ``maxlen`` or ``minid`` may be specified")
        if maxlen is None and minid is None:
            raise DataError("One of ``maxlen`` or ``minid`` must be specified")
        words = _trim(maxlen, minid, limit, approximate=approximate)
        if ref_policy is not None:
            check_policy(ref_policy, "XTRIM")
            words.append(ref_policy)
        return self.execute_command("XTRIM", name, *words)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2  # noqa: PLR2004  # what a pair is


def _is_full(value: object) -> bool:
    return isinstance(value, dict) and bool(value)


def _is_within(value: object, most: int) -> bool:
    return isinstance(value, int) and 1 <= value <= most


def _trim(maxlen: int | None, minid: Any, limit: int | None, *, approximate: bool) -> list[Any]:
    words: list[Any] = []
    for name, value in (("MAXLEN", maxlen), ("MINID", minid)):
        if value is not None:
            words += [name, "~", value] if approximate else [name, value]
    return words if limit is None else [*words, "LIMIT", limit]


def _count(count: int | None, command: str) -> list[Any]:
    if count is None:
        return []
    check_count(count, f"{command} count", 1)
    return ["COUNT", count]


def read_words(
    command: str, *, count: int | None, block: int | None, max_count: int | None, max_size: int | None
) -> list[Any]:
    """The options of XREAD and XREADGROUP.

    Raises:
        DataError: a number is out of range.
    """
    words = _count(count, command)
    if max_count is not None:
        check_count(max_count, f"{command} max_count", 1)
        if count is not None and max_count < count:
            raise DataError(f"{command} max_count must be greater than or equal to count")
        words += ["MAXCOUNT", max_count]
    if max_size is not None:
        check_count(max_size, f"{command} max_size", 1)
        words += ["MAXSIZE", max_size]
    if block is not None:
        check_count(block, f"{command} block")
        words += ["BLOCK", block]
    return words


def stream_words(command: str, streams: dict[Any, Any]) -> list[Any]:
    """The streams of XREAD and XREADGROUP.

    Raises:
        DataError: there are none.
    """
    check(_is_full(streams), f"{command} streams must be a non empty dict")
    return ["STREAMS", *streams, *streams.values()]
