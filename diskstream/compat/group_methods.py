"""redis-py's methods for consumer groups of streams."""

from typing import Any, Literal

from diskstream.compat.calling import Answer, Calling, check, check_count, check_policy, is_count
from diskstream.compat.errors import DataError
from diskstream.compat.stream_methods import read_words, stream_words

__all__ = ["GroupMethods"]


class GroupMethods(Calling):
    """Names, arguments and checks are redis-py's."""

    def xack(self, name: Any, groupname: Any, *ids: Any) -> Answer:
        """Acknowledges entries. Returns how many were pending."""
        return self.execute_command("XACK", name, groupname, *ids)

    def xackdel(
        self, name: Any, groupname: Any, *ids: Any, ref_policy: Literal["KEEPREF", "DELREF", "ACKED"] = "KEEPREF"
    ) -> Answer:
        """Acknowledges entries and deletes them. Returns for each ID 1 (both), -1 (none) or 2 (still referred to).

        Raises:
            DataError: no ID, or no such policy.
        """
        if not ids:
            raise DataError("XACKDEL requires at least one message ID")
        check_policy(ref_policy, "XACKDEL")
        return self.execute_command("XACKDEL", name, groupname, ref_policy, "IDS", len(ids), *ids)

    def xnack(
        self,
        name: Any,
        groupname: Any,
        mode: Literal["SILENT", "FAIL", "FATAL"],
        *ids: Any,
        retrycount: int | None = None,
        force: bool = False,
    ) -> Answer:
        """Gives entries back for others. Returns how many were pending.

        Raises:
            DataError: no ID, no such mode, or `retrycount` is below 0.
        """
        if not ids:
            raise DataError("XNACK requires at least one message ID")
        if mode not in {"SILENT", "FAIL", "FATAL"}:
            raise DataError("XNACK mode must be one of: SILENT, FAIL, FATAL")
        words: list[Any] = ["IDS", len(ids), *ids]
        if retrycount is not None:
            check(is_count(retrycount), "XNACK retrycount must be >= 0")
            words += ["RETRYCOUNT", retrycount]
        return self.execute_command("XNACK", name, groupname, mode, *words, *(["FORCE"] if force else []))

    def xautoclaim(
        self,
        name: Any,
        groupname: Any,
        consumername: Any,
        min_idle_time: int | None,
        start_id: Any = "0-0",
        count: int | None = None,
        justid: bool = False,
    ) -> Answer:
        """Takes over what has been pending for `min_idle_time` ms. Returns the next start, entries, and IDs gone.

        Raises:
            DataError: a number is below 0.
        """
        if min_idle_time is not None and int(min_idle_time) < 0:
            raise DataError("XAUTOCLAIM min_idle_time must be a nonnegative integer")
        words: list[Any] = [name, groupname, consumername, min_idle_time, start_id]
        if count is not None:
            if int(count) < 0:
                raise DataError("XPENDING count must be a integer >= 0")
            words += ["COUNT", count]
        if justid:
            return self.execute_command("XAUTOCLAIM", *words, "JUSTID", parse_justid=True)
        return self.execute_command("XAUTOCLAIM", *words)

    def xclaim(
        self,
        name: Any,
        groupname: Any,
        consumername: Any,
        min_idle_time: int,
        message_ids: list[Any] | tuple[Any],
        idle: int | None = None,
        time: int | None = None,
        retrycount: int | None = None,
        force: bool = False,
        justid: bool = False,
    ) -> Answer:
        """Takes over pending entries. Returns them, or their IDs.

        Raises:
            DataError: an argument is of the wrong kind.
        """
        check(is_count(min_idle_time), "XCLAIM min_idle_time must be a non negative integer")
        check(_are_several(message_ids), "XCLAIM message_ids must be a non empty list or tuple of message IDs to claim")
        words: list[Any] = [name, groupname, consumername, min_idle_time, *message_ids]
        for option, value in (("idle", idle), ("time", time), ("retrycount", retrycount)):
            if value is not None:
                check(isinstance(value, int), f"XCLAIM {option} must be an integer")
                words += [option.upper(), value]
        for option, wanted in (("force", force), ("justid", justid)):
            if wanted:
                check(isinstance(wanted, bool), f"XCLAIM {option} must be a boolean")
                words.append(option.upper())
        return self.execute_command("XCLAIM", *words, **({"parse_justid": True} if justid else {}))

    def xgroup_create(
        self, name: Any, groupname: Any, id: Any = "$", mkstream: bool = False, entries_read: int | None = None
    ) -> Answer:
        """Makes a group that begins behind `id`. Returns True."""
        words: list[Any] = ["MKSTREAM"] if mkstream else []
        if entries_read is not None:
            words += ["ENTRIESREAD", entries_read]
        return self.execute_command("XGROUP CREATE", name, groupname, id, *words)

    def xgroup_createconsumer(self, name: Any, groupname: Any, consumername: Any) -> Answer:
        """Makes a consumer. Returns 1, or 0 where there was one."""
        return self.execute_command("XGROUP CREATECONSUMER", name, groupname, consumername)

    def xgroup_delconsumer(self, name: Any, groupname: Any, consumername: Any) -> Answer:
        """Removes a consumer. Returns how many entries it had pending."""
        return self.execute_command("XGROUP DELCONSUMER", name, groupname, consumername)

    def xgroup_destroy(self, name: Any, groupname: Any) -> Answer:
        """Removes a group. Returns whether there was one."""
        return self.execute_command("XGROUP DESTROY", name, groupname)

    def xgroup_setid(self, name: Any, groupname: Any, id: Any, entries_read: int | None = None) -> Answer:
        """Sets what the group was given last. Returns True."""
        words = [] if entries_read is None else ["ENTRIESREAD", entries_read]
        return self.execute_command("XGROUP SETID", name, groupname, id, *words)

    def xinfo_consumers(self, name: Any, groupname: Any) -> Answer:
        """The consumers of a group, each as a dictionary."""
        return self.execute_command("XINFO CONSUMERS", name, groupname)

    def xinfo_groups(self, name: Any) -> Answer:
        """The groups of a stream, each as a dictionary."""
        return self.execute_command("XINFO GROUPS", name)

    def xpending(self, name: Any, groupname: Any) -> Answer:
        """How much is pending: a dictionary with ``pending``, ``min``, ``max`` and ``consumers``."""
        return self.execute_command("XPENDING", name, groupname)

    def xpending_range(
        self,
        name: Any,
        groupname: Any,
        min: Any,  # noqa: A002  # redis-py's name
        max: Any,  # noqa: A002  # redis-py's name
        count: int | None,
        consumername: Any = None,
        idle: int | None = None,
    ) -> Answer:
        """What is pending from `min` to `max`, each entry as a dictionary.

        Raises:
            DataError: some of `min`, `max` and `count` are missing, or a number is below 0.
        """
        if min is None and max is None and count is None:
            if idle is not None or consumername is not None:
                raise DataError(
                    "if XPENDING is provided with idle time or consumername,"
                    " it must be provided with min, max and count parameters"
                )
            return self.xpending(name, groupname)
        if min is None or max is None or count is None:
            raise DataError("XPENDING must be provided with min, max and count parameters, or none of them.")
        words: list[Any] = []
        if idle is not None:
            if int(idle) < 0:
                raise DataError("XPENDING idle must be a integer >= 0")
            words += ["IDLE", idle]
        if int(count) < 0:
            raise DataError("XPENDING count must be a integer >= 0")
        words += [min, max, count, *([consumername] if consumername else [])]
        return self.execute_command("XPENDING", name, groupname, *words, parse_detail=True)

    def xreadgroup(
        self,
        groupname: str,
        consumername: str,
        streams: dict[Any, Any],
        count: int | None = None,
        block: int | None = None,
        noack: bool = False,
        claim_min_idle_time: int | None = None,
        max_count: int | None = None,
        max_size: int | None = None,
    ) -> Answer:
        """Reads as a consumer of a group: see `xread`.

        With `claim_min_idle_time`, what was pending for that long comes first, and each entry has two more members: for
        how many ms, and how often it was delivered.

        Raises:
            DataError: a number is out of range, or there are no streams.
        """
        words = read_words("XREADGROUP", count=count, block=block, max_count=max_count, max_size=max_size)
        options: dict[str, Any] = {}
        if noack:
            words.append("NOACK")
        if claim_min_idle_time is not None:
            check_count(claim_min_idle_time, "XREADGROUP claim_min_idle_time")
            words += ["CLAIM", claim_min_idle_time]
            options["claim_min_idle_time"] = claim_min_idle_time
        words += stream_words("XREADGROUP", streams)
        return self.execute_command("XREADGROUP", "GROUP", groupname, consumername, *words, **options)


def _are_several(ids: object) -> bool:
    return isinstance(ids, list | tuple) and bool(ids)
