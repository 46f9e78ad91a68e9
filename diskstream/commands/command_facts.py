"""What COMMAND INFO says of a command beside words and keys: flags in order, ACL categories, and tips for clients."""

from diskstream.commands.table import Command

__all__ = ["categories_of", "flags_of", "tips_of"]

# In the order in which Redis says them, as clients may compare what they get with what they got elsewhere.
_FLAGS = [
    "write",
    "readonly",
    "denyoom",
    "admin",
    "noscript",
    "blocking",
    "loading",
    "stale",
    "skip_slowlog",
    "fast",
    "no_auth",
    "no_async_loading",
    "no_multi",
    "movablekeys",
    "allow_busy",
]
_CATEGORIES = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@list",
    "@string",
    "@stream",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
]
_OF_GROUPS = {"generic": "@keyspace", "server": "", "transactions": "@transaction"}
_OF_COMMANDS = {
    "@dangerous": "restore swapdb flushdb flushall keys info lastsave role",
    "@admin": "lastsave role",
    "@keyspace": "swapdb flushdb flushall dbsize",
    "@connection": "wait waitaof command command|count command|info command|docs command|getkeys "
    "command|getkeysandflags command|list command|help",
}
_TIPS = {
    "nondeterministic_output": "xadd xtrim xinfo|consumers xclaim xautoclaim xpending client|info client|list "
    "object|encoding object|freq object|idletime object|refcount dump ttl pttl time lastsave",
    "nondeterministic_output_order": "smembers function|list command command|info command|docs command|list",
    "nondeterministic_output request_policy:all_shards response_policy:special": "memory|doctor info",
    "nondeterministic_output request_policy:special": "scan",
    "request_policy:all_nodes response_policy:all_succeeded": "script|flush config|set",
    "request_policy:all_shards nondeterministic_output": "randomkey",
    "request_policy:all_shards nondeterministic_output_order": "keys",
    "request_policy:all_shards response_policy:agg_min": "wait waitaof",
    "request_policy:all_shards response_policy:agg_sum": "dbsize",
    "request_policy:all_shards response_policy:all_succeeded": "ping memory|purge flushdb flushall function|flush",
    "request_policy:multi_shard response_policy:agg_sum": "del unlink exists touch",
}


def _by_name(names_of: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for said, names in names_of.items():
        for name in names.split():
            found.setdefault(name, []).extend(said.split())
    return found


_OWN_CATEGORIES, _OWN_TIPS = _by_name(_OF_COMMANDS), _by_name(_TIPS)


def flags_of(command: Command) -> list[str]:
    """The flags of a command, in Redis's order."""
    said = command.flags | ({"movablekeys"} if command.find_keys is not None else set())
    return sorted(said, key=_FLAGS.index)


def categories_of(command: Command) -> list[str]:
    """The ACL categories of a command, in Redis's order. What only holds subcommands belongs to no group."""
    found = set(_OWN_CATEGORIES.get(command.name, ()))
    if command.run is not None and command.name not in ("wait", "waitaof"):
        found |= {_OF_GROUPS.get(command.group, f"@{command.group}")} - {""}
    found.update(f"@{flag}" for flag in ("admin", "blocking") if flag in command.flags)
    found.update(f"@{kind}" for kind, flag in (("read", "readonly"), ("write", "write")) if flag in command.flags)
    found.add("@fast" if "fast" in command.flags else "@slow")
    if "admin" in command.flags:
        found.add("@dangerous")
    return sorted(found, key=_CATEGORIES.index)


def tips_of(command: Command) -> list[str]:
    """What helps a client to send the command where there are many servers, and to understand the answer."""
    return _OWN_TIPS.get(command.name, [])
