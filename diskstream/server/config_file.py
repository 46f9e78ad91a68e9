"""A file of settings in the syntax of redis.conf: a name and its values on each line, `#` before remarks."""

import re
from dataclasses import dataclass
from pathlib import Path

from diskstream.server.errors import ServeError

__all__ = ["ConfigFile", "read_config", "split_line"]

_WORD = re.compile(r"""\s*("(?:\\x[0-9a-fA-F]{2}|\\.|[^"\\])*"|'(?:\\'|[^'])*'|[^\s"']+)(?=\s|$)""")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}

# What a redis.conf may say and what means nothing here: what it is for does not exist, or is always so.
_IGNORED = re.compile(
    r"acl.*|active-.*|activedefrag|always-show-logo|aof-.*|appenddirname|appendfilename|appendonly|auto-aof-.*"
    r"|activerehashing|close-on-.*|cluster-.*|crash-.*|daemonize|databases|dbfilename|disable-thp|dynamic-hz|enable-.*"
    r"|hash-.*|hll-.*|hz|ignore-warnings|io-threads.*|jemalloc-.*|latency-.*|lazyfree-.*|lfu-.*|list-.*|locale-.*|lua-.*"
    r"|maxmemory.*|min-.*|no-appendfsync-.*|notify-.*|oom-.*|pidfile|proc-title-.*|rdb.*|repl-.*|replica.*|save|set-.*"
    r"|set-proc-title|shutdown-.*|slave.*|slowlog-.*|socket-mark-id|stop-writes-.*|supervised|syslog-.*|tracking-.*"
    r"|zset-.*"
)


@dataclass(frozen=True)
class ConfigFile:
    """What a file says.

    Attributes:
        settings: values by name, as text.
        ignored: names of what means nothing here.
    """

    settings: dict[str, str]
    ignored: tuple[str, ...]


def split_line(line: str) -> list[str]:
    """The words of a line; quotes are Redis's.

    Raises:
        ValueError: quotes that do not end.
    """
    words, at, line = [], 0, line.strip()
    while at < len(line):
        found = _WORD.match(line, at)
        if found is None:
            raise ValueError("quotes that do not end")
        words.append(_unquoted(found[1]))
        at = found.end()
    return words


def _unquoted(word: str) -> str:
    if word.startswith("'"):
        return word[1:-1].replace("\\'", "'")
    if not word.startswith('"'):
        return word

    def char(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _NAMED.get(code, code)

    return _ESCAPE.sub(char, word[1:-1])


def read_config(path: Path) -> ConfigFile:
    """Reads a file. Of a setting that stands there twice the last one counts.

    Raises:
        ServeError: the file cannot be read, or a line cannot be understood; names file and line.
    """
    from diskstream.server.settings import names

    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise ServeError(f"cannot read {path}: {error.strerror}") from None
    known = names()
    settings: dict[str, str] = {}
    ignored: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            name, *values = split_line(line)
        except ValueError as error:
            raise ServeError(f"{path}:{number}: {error}") from None
        name = name.lower()
        if name == "client-output-buffer-limit" and values and values[0] in ("replica", "slave", "pubsub"):
            continue  # there are no such clients
        if name == "aclfile" and any(values):  # passed over, it would let in whom these users' passwords keep out
            raise ServeError(
                f"{path}:{number}: aclfile {values[0]}: there is one user here, and no file of others",
                hint="take this line out, and set requirepass where a password is to be asked for",
            )
        if name in known:
            settings[name] = " ".join(values)
        elif _IGNORED.fullmatch(name):
            ignored.append(name)
        else:
            raise ServeError(
                f"{path}:{number}: there is no setting {name}", hint="diskstream serve --help lists all of them"
            )
    return ConfigFile(settings, tuple(ignored))
