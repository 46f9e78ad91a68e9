"""A file of settings in the syntax of redis.conf: a name and its values on each line, `#` before remarks."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from diskstream.plurals import number_of
from diskstream.server.errors import ServeError

__all__ = ["MAX_CONFIG_BYTES", "ConfigFile", "read_config", "split_line"]

MAX_CONFIG_BYTES: Final = 1 << 20  # Redis's own, remarks and all, has a tenth of it

_WORD = re.compile(r"""\s*("(?:\\x[0-9a-fA-F]{2}|\\.|[^"\\])*"|'(?:\\'|[^'])*'|[^\s"']+)(?=\s|$)""")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}

_OF_SEVERAL_WORDS: Final = frozenset({"bind", "client-output-buffer-limit"})

# What a redis.conf may say and what means nothing here: what it is for does not exist, or is always so.
_IGNORED = re.compile(
    r"acl.*|active-.*|activedefrag|always-show-logo|aof-.*|appenddirname|appendfilename|appendonly|auto-aof-.*"
    r"|.*_cpulist|bind-source-addr|busy-reply-threshold"
    r"|activerehashing|close-on-.*|cluster-.*|crash-.*|daemonize|databases|dbfilename|disable-thp|dynamic-hz|enable-.*"
    r"|hash-.*|hll-.*|hz|ignore-warnings|io-threads.*|jemalloc-.*|latency-.*|lazyfree-.*|lfu-.*|list-.*|locale-.*|lua-.*"
    r"|masterauth|masteruser|maxmemory.*|min-.*|no-appendfsync-.*|notify-.*|oom-.*|pidfile|proc-title-.*"
    r"|propagation-error-behavior|rdb.*|repl-.*|replica.*|sanitize-dump-payload|save|set-.*"
    r"|set-proc-title|shutdown-.*|slave.*|slowlog-.*|socket-mark-id|stop-writes-.*|supervised|syslog-.*|tracking-.*"
    r"|tls-client-.*|tls-cluster|tls-replication|tls-session-.*|zset-.*"
)
_OUT = "take this line out"
_ONE_USER = f"{_OUT}, and set requirepass where a password is to be asked for"
# What a redis.conf may say, too, and what must not be passed over: a server without it would be more open, or another,
# than its file says. With the reason why it cannot be, and the way out.
_REFUSED = {
    "aclfile": ("there is one user here, and no file of others", _ONE_USER),
    "include": ("no other file is read here", "write the lines of that file into this one"),
    "loadmodule": ("there are no modules here", _OUT),
    "rename-command": ("each command has its own name here", _OUT),
    "user": ("there is one user here, who may do everything", _ONE_USER),
}
_OTHER_TLS = "this cannot be set of TLS here", f"{_OUT}: Python's own choice of protocols and ciphers counts"


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

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes.fromhex(code[1:].decode()) if len(code) > 1 else _NAMED.get(code, code)

    # An escape is a byte, not a letter: CONFIG REWRITE writes each letter that is not of ASCII as several.
    return _ESCAPE.sub(byte, word[1:-1].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _lines(path: Path) -> list[str]:
    """The lines of a file, which may be a pipe, as of a shell's ``<(...)``: so its size is known when it was read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ServeError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_CONFIG_BYTES:
        raise ServeError(
            f"cannot read {path}: it has more than {number_of(MAX_CONFIG_BYTES, 'byte')}",
            hint="name a file of settings, in the syntax of redis.conf",
        )
    return content.decode("utf-8", "surrogateescape").split("\n")  # and at nothing else that is a line's end in Unicode


def read_config(path: Path, known: Collection[str]) -> ConfigFile:
    """Reads a file. Of a setting that stands there twice the last one counts.

    Args:
        path: of the file.
        known: the names of the settings that there are.

    Raises:
        ServeError: the file cannot be read, is too large, or a line cannot be understood; names file and line.
    """
    lines = _lines(path)
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
        refused = _REFUSED.get(name)
        if name in known:
            if len(values) > 1 and name not in _OF_SEVERAL_WORDS:
                what = f"{name} takes one value, not {len(values)}"
                raise ServeError(f"{path}:{number}: {what}", hint='put "quotes" around one that has spaces')
            settings[name] = " ".join(values)
        elif _IGNORED.fullmatch(name) and refused is None:
            ignored.append(name)
        elif refused is not None or name.startswith("tls-"):
            if any(values):
                why, way_out = refused or _OTHER_TLS
                raise ServeError(f"{path}:{number}: {name} {values[0]}: {why}", hint=way_out)
            ignored.append(name)
        else:
            raise ServeError(
                f"{path}:{number}: there is no setting {name}", hint="diskstream serve --help lists all of them"
            )
    return ConfigFile(settings, tuple(ignored))
