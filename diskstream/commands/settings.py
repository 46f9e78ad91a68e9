"""What CONFIG says: settings by name, their kinds and limits, and the commands on them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diskstream._native import TRIM_GRANULE_ENTRIES
from diskstream.commands.arguments import INT_MAX
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.globs import glob
from diskstream.commands.help import help_lines
from diskstream.commands.replies import OK, Failure, Map, Reply
from diskstream.commands.table import Command
from diskstream.errors import DiskstreamError

__all__ = ["COMMANDS", "Setting", "Settings"]

_INT32 = 2**31 - 1
# The order in which Redis tries them: the shorter unit is no part of a longer one there.
_UNITS = {"b": 1, "k": 1000, "kb": 1024, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: as Redis calls it.
        value: at the start.
        kind: ``text``, ``flag``, ``integer``, ``memory``, ``choice``, ``save`` or ``output-limits``.
        least, most: limits of a number.
        choices: of a choice.
        fixed: it cannot be changed while it runs.
    """

    name: str
    value: str
    kind: str = "text"
    least: int = 0
    most: int = INT_MAX
    choices: tuple[str, ...] = ()
    fixed: bool = False


# What clients and their tests ask for. Of those that say how Redis keeps its memory, or flushes its files, most have no
# effect: they are there to be read back.
SETTINGS = (
    Setting("appendfsync", "everysec", "choice", choices=("everysec", "always", "no")),
    Setting("appendonly", "yes", "flag"),
    Setting("auto-aof-rewrite-percentage", "100", "integer", most=_INT32),
    Setting("bind", "127.0.0.1"),
    Setting(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        "output-limits",
    ),
    Setting("client-query-buffer-limit", "1073741824", "memory", least=1 << 20),
    Setting("cluster-enabled", "no", "flag", fixed=True),
    Setting("databases", "16", "integer", least=1, fixed=True),
    Setting("dbfilename", "dump.rdb"),
    Setting("dir", "", fixed=True),
    Setting("enable-debug-command", "no", "choice", choices=("no", "yes", "local"), fixed=True),
    Setting("hz", "10", "integer", least=1, most=500),
    Setting("io-threads", "1", "integer", least=1, most=128, fixed=True),
    Setting("latency-tracking", "no", "flag"),
    Setting("lazyfree-lazy-user-del", "no", "flag"),
    Setting("list-max-listpack-size", "-2", "integer", least=-5),
    Setting("list-max-ziplist-size", "-2", "integer", least=-5),
    Setting("loglevel", "notice", "choice", choices=("debug", "verbose", "notice", "warning")),
    Setting("maxclients", "10000", "integer", least=1, most=2**32 - 1),
    Setting("maxmemory", "0", "memory"),
    Setting("maxmemory-policy", "noeviction", "choice", choices=("noeviction",)),
    Setting("notify-keyspace-events", ""),
    Setting("port", "6379", "integer", most=65535),
    Setting("proto-max-bulk-len", "536870912", "memory", least=1 << 20),
    Setting("protected-mode", "yes", "flag"),
    Setting("repl-diskless-sync-delay", "5", "integer", most=_INT32),
    Setting("requirepass", ""),
    Setting("sanitize-dump-payload", "no", "choice", choices=("no", "yes", "clients")),
    Setting("save", "", "save"),
    Setting("set-max-intset-entries", "512", "integer"),
    Setting("slowlog-log-slower-than", "10000", "integer", least=-1),
    Setting("slowlog-max-len", "128", "integer"),
    Setting("stream-idmp-duration", "100", "integer", least=1, most=86_400),
    Setting("stream-idmp-maxsize", "100", "integer", least=1, most=10_000),
    Setting("stream-node-max-bytes", "4096", "memory"),
    Setting("stream-node-max-entries", "100", "integer"),
    Setting("tcp-keepalive", "300", "integer", most=_INT32),
    Setting("timeout", "0", "integer", most=_INT32),
    Setting("zset-max-listpack-entries", "128", "integer"),
)
_PATTERN = re.compile(rb"[*?\[]")
_FSYNC = {"always": "always", "everysec": "everysec", "no": "os"}


def _memory(text: str) -> int | None:
    digits = text.lower().rstrip("bkmg")
    unit = text.lower()[len(digits) :] or "b"
    return int(digits) * _UNITS[unit] if digits.isascii() and digits.isdigit() and unit in _UNITS else None


def _number(setting: Setting, text: str) -> str:
    number: int | None
    if setting.kind == "memory":
        number = _memory(text)
        if number is None:
            raise ValueError("argument must be a memory value")
    else:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:  # of 64 bits
            raise ValueError("argument couldn't be parsed into an integer")
        number = int(text)
    if not setting.least <= number <= setting.most:
        raise ValueError(f"argument must be between {setting.least} and {setting.most} inclusive")
    return str(number)


def _output_limits(*texts: str) -> str:
    """The limits of all classes of clients, as Redis shows them: of each those of the last text that names it.

    One number alone, which Redis does not take, is the hard limit of class ``normal``.

    Raises:
        ValueError: there is no such class, or a limit is no number, in Redis's words.
    """
    limits = {name: ["0", "0", "0"] for name in ("normal", "slave", "pubsub")}
    for text in texts:
        words = text.lower().split()
        if len(words) == 1:
            words = ["normal", words[0], "0", "0"]
        if len(words) % 4:
            raise ValueError("Wrong number of arguments in buffer limit configuration.")
        for at in range(0, len(words), 4):
            name, numbers = words[at].replace("replica", "slave"), [_memory(word) for word in words[at + 1 : at + 4]]
            if name not in limits:
                raise ValueError("Invalid client class specified in buffer limit configuration.")
            if None in numbers:
                raise ValueError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
            limits[name] = [str(number) for number in numbers]
    return " ".join(f"{name} {' '.join(numbers)}" for name, numbers in limits.items())


def _checked(setting: Setting, text: str) -> str:
    """A value as it is kept.

    Raises:
        ValueError: it is none, in Redis's words.
    """
    if setting.kind in ("integer", "memory"):
        return _number(setting, text)
    if setting.kind == "flag":
        if text.lower() not in ("yes", "no"):
            raise ValueError("argument must be 'yes' or 'no'")
        return text.lower()
    if setting.kind == "choice":
        if text.lower() not in setting.choices:
            raise ValueError(f"argument(s) must be one of the following: {', '.join(setting.choices)}")
        return text.lower()
    if setting.kind == "save":
        words = text.split()
        if len(words) % 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise ValueError("Invalid save parameters")
        return " ".join(words)
    return text


class Settings:
    """The settings of a keyspace, by name.

    Args:
        options: how its stores are opened.
        path: its directory.
    """

    def __init__(self, options: dict[str, Any], path: Path) -> None:
        self._known = {setting.name: setting for setting in SETTINGS}
        self._values = {setting.name: setting.value for setting in SETTINGS}
        self._values["dir"] = str(path)
        fsync = str(options.get("fsync", "everysec"))
        self._values["appendfsync"] = {"always": "always", "os": "no"}.get(fsync, "everysec")

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def number(self, name: str) -> int:
        """A setting that is a number."""
        return int(self._values[name])

    def windows(self) -> tuple[int, int]:
        """Of a stream that is made: for how many seconds, and how many of each producer's messages are remembered."""
        return self.number("stream-idmp-duration"), self.number("stream-idmp-maxsize")

    def run_entries(self) -> int:
        """Of how many entries approximate trims remove whole runs; where Redis has no bound but one of bytes, 100."""
        return self.number("stream-node-max-entries") or TRIM_GRANULE_ENTRIES

    def names(self) -> list[str]:
        """All names, in order."""
        return sorted(self._values)

    def put(self, name: str, value: str) -> None:
        """Sets what is known at the start only, as ``port``; nobody is told."""
        self._values[name] = value

    def set(self, pairs: Iterable[tuple[str, str]], apply: Callable[[str, str], str | None]) -> None:
        """Changes settings, all of them or none; `apply` takes each into use, and says what is wrong with it.

        Raises:
            Failure: one is unknown, fixed, named twice or out of range, in Redis's words.
        """
        wanted: dict[str, str] = {}
        for given, text in pairs:
            name = given.lower()
            setting = self._known.get(name)
            if setting is None:
                raise Failure(f"ERR Unknown option or number of arguments for CONFIG SET - '{given}'")
            if setting.fixed:
                raise _refusal(name, "can't set immutable config")
            if name in wanted:
                raise _refusal(name, "duplicate parameter")
            try:
                if setting.kind == "output-limits":
                    wanted[name] = _output_limits(setting.value, self._values[name], text)
                else:
                    wanted[name] = _checked(setting, text)
            except ValueError as error:
                raise _refusal(name, str(error)) from None
        before = {name: self._values[name] for name in wanted}
        for name, value in wanted.items():
            wrong = apply(name, value) if value != before[name] else None
            if wrong is not None:
                for done in wanted:
                    if self._values[done] != before[done]:
                        apply(done, before[done])
                self._values.update(before)
                raise _refusal(name, wrong)
            self._values[name] = value


def _refusal(name: str, why: str) -> Failure:
    return Failure(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _get(caller: Caller, words: list[bytes]) -> Reply:
    settings, found = caller.keyspace.settings, dict[str, bytes]()
    for word in words[2:]:
        name = _text(word).lower()
        if not _PATTERN.search(word):  # a name comes back as it was asked for: programs look for it so
            if name in settings:
                found.setdefault(name, word)
            continue
        pattern = glob(word.lower())
        for name in settings.names():
            if pattern.fullmatch(name.encode()):
                found.setdefault(name, name.encode())
    return Map([(shown, settings[name]) for name, shown in sorted(found.items())])


def _set(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) % 2:
        raise Failure(SYNTAX)

    def apply(name: str, value: str) -> str | None:
        if name == "appendfsync":
            try:
                caller.keyspace.reopen(fsync=_FSYNC[value])
            except DiskstreamError as error:
                return str(error)
        return None if caller.host is None else caller.host.set_setting(name, value)

    pairs = zip(words[2::2], words[3::2], strict=True)
    caller.keyspace.settings.set([(_text(name), _text(value)) for name, value in pairs], apply)
    return OK


def _reset_statistics(caller: Caller, _words: list[bytes]) -> Reply:
    caller.keyspace.statistics.reset()
    if caller.host is not None:
        caller.host.reset_counts()
    return OK


def _rewrite(caller: Caller, _words: list[bytes]) -> Reply:
    """No client writes the file that the next start believes."""
    path = "" if caller.host is None else caller.host.facts().get("server", {}).get("config_file")
    if not path:
        raise Failure("ERR The server is running without a config file")
    raise Failure(f"ERR CONFIG REWRITE is not supported: what shall outlast the server is to be written into {path}")


def _help(_caller: Caller, _words: list[bytes]) -> Reply:
    lines = [
        "CONFIG <subcommand> [<arg> ...]. Subcommands are:",
        "GET <pattern>",
        "SET <directive> <value>",
        "RESETSTAT",
    ]
    return help_lines(lines)


_ADMIN = frozenset({"admin", "noscript", "loading", "stale"})


def _sub(
    name: str, arity: int, run: Callable[[Caller, list[bytes]], Reply], summary: str, since: str = "2.0.0"
) -> Command:
    return Command(f"config|{name}", arity, run, _ADMIN, group="server", since=since, summary=summary)


COMMANDS = (
    Command(
        "config",
        -2,
        None,
        group="server",
        since="2.0.0",
        summary="A container for server configuration commands.",
        subcommands={
            "get": _sub("get", -3, _get, "Returns the effective values of configuration parameters."),
            "set": _sub("set", -4, _set, "Sets configuration parameters in-flight."),
            "resetstat": _sub("resetstat", 2, _reset_statistics, "Resets the server's statistics."),
            "rewrite": _sub("rewrite", 2, _rewrite, "Is refused: the file is the operator's.", since="2.8.0"),
            "help": Command(
                "config|help",
                2,
                _help,
                frozenset({"loading", "stale"}),
                group="server",
                since="5.0.0",
                summary="Returns helpful text about the different subcommands.",
            ),
        },
    ),
)
