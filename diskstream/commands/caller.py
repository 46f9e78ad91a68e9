"""What a command knows of whoever called it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from diskstream.commands.keyspace import Keyspace
    from diskstream.commands.stream_group_reading import GroupRead
    from diskstream.commands.waiting import Waiting
    from diskstream.store import Store

__all__ = ["Buffers", "Caller", "Host", "Transaction"]


@dataclass(frozen=True)
class Buffers:
    """What a server keeps for a client.

    Attributes:
        fd: the number of its socket.
        came_bytes: what came and has not run yet: half a command, say.
        unsent_bytes: replies that it has not read.
    """

    fd: int = 0
    came_bytes: int = 0
    unsent_bytes: int = 0


class Host(Protocol):
    """What only a running server can do. `commands` asks it; with `compat` there is none, and the commands say so."""

    def clients(self) -> "list[Caller]":
        """Every connected client, in the order of their IDs."""

    def client(self, number: int) -> "Caller | None":
        """The connected client that has this ID."""

    def buffers(self, caller: "Caller") -> Buffers:
        """What is kept for a connected client."""

    def kill(self, caller: "Caller") -> None:
        """Ends a connection: at once, or behind its reply where it is the one that asked."""

    def unblock(self, caller: "Caller", *, with_error: bool) -> bool:
        """Ends a client's wait, as CLIENT UNBLOCK. Returns whether it was waiting."""

    def pause(self, until: float, *, writes_only: bool) -> None:
        """Holds back commands until then (`time.monotonic`), as CLIENT PAUSE; 0 ends it, as CLIENT UNPAUSE.

        Of a pause that lasts and another one the later end counts, and the one that holds back more.
        """

    def shut_down(self) -> None:
        """Ends the server once this turn's replies are sent."""

    def facts(self) -> dict[str, dict[str, int | float | str]]:
        """Sections of INFO that only the server knows: ``server``, ``clients``, ``stats``, ``memory``."""

    def reset_counts(self) -> None:
        """Begins anew what `facts` counts, as CONFIG RESETSTAT."""

    def reply_bytes(self) -> int:
        """Bytes that one reply may have; 0 is no limit. A stream may be larger than memory."""

    def set_setting(self, name: str, value: str) -> str | None:
        """Takes a changed setting into use. Returns what is wrong with it, or None."""


@dataclass
class Transaction:
    """A MULTI that is being filled.

    Attributes:
        queue: the commands.
        size_bytes: what they take.
        failed: whether one was refused, so that EXEC will be.
    """

    queue: list[list[bytes]] = field(default_factory=list)
    size_bytes: int = 0
    failed: bool = False


@dataclass(eq=False)
class Caller:
    """A client: one connection of the server, or one object of `diskstream.compat`.

    Attributes:
        keyspace: the databases.
        id: a number that no other client of the server has had.
        address, local_address: of its socket, as ``127.0.0.1:5000``; empty where there is none.
        database: the selected one.
        protocol: 2 or 3, of RESP.
        name, library, library_version: as it said (CLIENT SETNAME, SETINFO).
        user: whom it authenticated as; None before it did, where it must.
        may_wait: whether a command may return `Waiting`; not within EXEC.
        transaction: the MULTI it is in.
        watched: the versions of what WATCH named, by database and key.
        watched_bytes: what they take, as long as there are any.
        waiting: the wait it is in.
        reply_mode: ``on``, ``off`` or ``skip`` (CLIENT REPLY); ``skipping`` while the command runs that is skipped.
        no_evict, no_touch: flags that it set; they change nothing here.
        created, last_used: by `time.monotonic`.
        last_command: the name of its last command.
        last_read: its last XREADGROUP, as it was understood.
        host: the server it is a client of.
        is_local: whether it is on this machine, as far as its address says.
    """

    keyspace: "Keyspace"
    id: int = 0
    address: str = ""
    local_address: str = ""
    database: int = 0
    protocol: int = 2
    name: bytes = b""
    library: bytes = b""
    library_version: bytes = b""
    user: str | None = "default"
    may_wait: bool = True
    transaction: Transaction | None = None
    watched: dict[tuple[int, bytes], object] = field(default_factory=dict)
    watched_bytes: int = 0
    waiting: "Waiting | None" = None
    reply_mode: str = "on"
    no_evict: bool = False
    no_touch: bool = False
    created: float = 0.0
    last_used: float = 0.0
    last_command: str = ""
    last_read: "GroupRead | None" = None
    host: Host | None = None
    is_local: bool = True

    @property
    def store(self) -> "Store":
        """The store of the selected database, made and opened when it is first used."""
        return self.keyspace.store(self.database)
