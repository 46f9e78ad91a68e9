"""The commands by name, and the one place in which they are called and errors become replies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from diskstream.commands.caller import Caller
from diskstream.commands.failures import c_text, failure_of, fault_of, no_memory
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import DiskstreamError

__all__ = ["Command", "Run", "Table", "WrongCount", "call", "find", "table_of"]

Run = Callable[[Caller, list[bytes]], "Reply | Waiting"]


@dataclass(frozen=True)
class Command:
    """A command, or a subcommand of one.

    Attributes:
        name: in lower case; of a subcommand with its container's, as ``xgroup|create``.
        arity: words, the name included; below zero at least so many. Of a subcommand both names count.
        run: what it does; for a container what happens without a known subcommand is `table.call`'s.
        flags: as COMMAND INFO says them: ``write``, ``readonly``, ``blocking``, ``fast``, ``admin``, ``noscript``, ...
        keys: first key, last key and step, as in COMMAND INFO; (0, 0, 0) is none. -1 is the last word.
        group: ``stream``, ``generic``, ``connection``, ``server``, ``transactions``, ...
        since, summary: as in COMMAND DOCS.
        subcommands: by name in lower case, without the container's.
        find_keys: where keys stand if `keys` cannot tell (XREAD): gives them from the words.
        ends_waits: whether what it writes may be what somebody waits for.
    """

    name: str
    arity: int
    run: Run | None
    flags: frozenset[str] = frozenset()
    keys: tuple[int, int, int] = (0, 0, 0)
    group: str = "stream"
    since: str = "5.0.0"
    summary: str = ""
    subcommands: Mapping[str, "Command"] = field(default_factory=dict)
    find_keys: Callable[[list[bytes]], list[bytes]] | None = None
    ends_waits: bool = True

    def takes(self, count: int) -> bool:
        """Whether it may be called with so many words."""
        return count == self.arity if self.arity > 0 else count >= -self.arity


Table = Mapping[str, Command]


def table_of(*parts: Iterable[Command]) -> Table:
    """The table of the commands that several modules list."""
    return MappingProxyType({command.name: command for part in parts for command in part})


# Names of commands as they are said, most often in one of two ways, as the table has them.
_NAMES: dict[bytes, str] = {}
_MOST_NAMES = 1024


_SHOWN_BYTES = 128


def _shown(word: bytes, most_bytes: int = _SHOWN_BYTES) -> bytes:
    return c_text(word[:most_bytes]).replace(b"\r", b" ").replace(b"\n", b" ")


def _beginning(words: list[bytes]) -> bytes:
    """The first of these words, each in quotes: the last one is shortened, and its quotes come on top of the limit."""
    shown = b""
    for word in words:
        if len(shown) >= _SHOWN_BYTES:
            break
        shown += b"'%s' " % _shown(word, _SHOWN_BYTES - len(shown))
    return shown


class WrongCount(Failure):
    """A command that is there was given too few words, or too many."""

    def __init__(self, command: Command) -> None:
        super().__init__(f"ERR wrong number of arguments for '{command.name}' command")
        self.command = command


def find(table: Table, words: list[bytes]) -> Command:
    """The command that is meant, with the arity checked.

    Raises:
        Failure: there is none, or not with so many words; Redis's text.
    """
    name = _NAMES.get(words[0])
    command = table.get(words[0].decode("latin-1").lower() if name is None else name)
    if command is None:
        text = b"ERR unknown command '%s', with args beginning with: %s" % (_shown(words[0]), _beginning(words[1:]))
        raise Failure(text)
    if command.subcommands and len(words) > 1:
        below = command.subcommands.get(words[1].decode("latin-1").lower())
        if below is None:
            container = command.name.upper().encode()
            raise Failure(b"ERR unknown subcommand '%s'. Try %s HELP." % (_shown(words[1]), container))
        command = below
    elif name is None and len(_NAMES) < _MOST_NAMES:
        _NAMES[words[0]] = command.name
    if not command.takes(len(words)) or command.run is None:
        raise WrongCount(command)
    return command


def call(command: Command, caller: Caller, words: list[bytes]) -> "Reply | Waiting":
    """Calls a command that was found. What goes wrong becomes an `ErrorReply`; without a server, what is known of."""
    assert command.run is not None
    try:
        return command.run(caller, words)
    except Failure as failure:
        return ErrorReply(failure.text)
    except (DiskstreamError, OSError) as error:  # the latter where the directory was removed, say
        return ErrorReply(failure_of(error, command.name, writes="readonly" not in command.flags).text)
    except MemoryError as error:
        if caller.host is None:
            raise
        return ErrorReply(no_memory(error).text)
    except Exception as error:
        if caller.host is None:
            raise
        return ErrorReply(fault_of(error, command.name).text)
