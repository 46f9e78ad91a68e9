"""Redis's protocol, as the native core shows it: a part of `_native.pyi` that has no room there."""

from typing import Any, TypeAlias, final

from diskstream._native import EntryID
from diskstream._native_packing import PackedRows

@final
class RequestParser:
    """Takes the bytes of one client, in whatever pieces, and gives its commands.

    Both kinds of request, their limits and the words of the errors are Redis's. One word may have `max_bulk_bytes`, and
    a request that has not come whole `max_query_bytes`; lines end within 64 KiB, and a request has at most 1,048,576
    words. Memory is taken for what has come, not for what was announced. With `runs`, plain XADDs come as
    `AddRun`, and plain XLEN, XRANGE, XACK and XREADGROUP as `CommandRun`.
    """

    def __new__(cls, max_bulk_bytes: int = ..., max_query_bytes: int = ..., runs: bool = False) -> RequestParser: ...
    def feed(
        self, data: bytes | bytearray | memoryview, authenticated: bool = True
    ) -> list[list[bytes] | AddRun | CommandRun]:
        """Takes bytes; the commands that are whole now, those before an error included.

        Each is the list of its words; with `runs` an `AddRun` or a `CommandRun` stands for one or more.
        Who is not `authenticated` may send 10 words of 16 KiB. A larger request behind other commands, which may
        authenticate, is held back: see `held_back`.
        """
    @property
    def error(self) -> bytes | None: ...  # The answer to a protocol error, without the "-": nothing comes any more
    @property
    def buffered_bytes(self) -> int: ...  # Bytes kept of what has not come whole
    @property
    def limit_passed(self) -> bool: ...  # Whether `max_query_bytes` were passed: nothing comes, nobody is answered
    @property
    def held_back(self) -> bool: ...  # Whether to `feed` once more, b"" if nothing came, after the last commands ran

@final
class Receiver:
    """Room of `room_bytes` (1 to 16 MiB) for what comes from one client after the other."""

    def __new__(cls, room_bytes: int) -> Receiver: ...
    def receive(
        self, fd: int, parser: RequestParser, authenticated: bool
    ) -> tuple[int, list[list[bytes] | AddRun | CommandRun], bool]:
        """Takes what has come over a socket and feeds a parser. Waits for nothing.

        Returns:
            How many bytes: 0 at the end or where the client is gone, -1 where nothing has come yet. The commands that
            are whole now, as `RequestParser.feed` gives them. And whether the parser has more to say once they were
            run: an error, that a limit was passed, or what it held back.
        """

def send_each(fds: list[int], replies: list[bytes]) -> list[int]:
    """Sends something to each of several sockets, without the interpreter's lock and without waiting.

    Returns:
        How many bytes went to each: 0 where none can go now, -1 where the client is gone.
    """

@final
class AddRun:
    """Commands ``XADD key * name value ...`` that came one behind the other in one `feed`: the rows of one frame.

    One command is a run too. A run ends with another key or command, and where a frame is full; a command that is too
    large for an entry is in none.
    """

    @property
    def key(self) -> bytes: ...  # The stream's name
    @property
    def rows(self) -> PackedRows: ...  # What `Log.add_packed` takes
    def __len__(self) -> int: ...  # Commands
    def kin_total(self, other: AddRun) -> int | None: ...  # Commands; None if they are for another key
    def commands(self) -> list[list[bytes]]: ...  # The commands, for when they must be run one by one
    def replies(self, first: EntryID) -> bytes:
        """Their replies, IDs as bulk strings, where the first became the entry `first`."""
    def replies_each(self, first: EntryID, counts: list[int]) -> list[bytes]:
        """The same apart for each of several who sent `counts` of them, in order."""
    @staticmethod
    def joined(runs: list[AddRun]) -> AddRun | None:
        """One run of the rows of several, for the first one's key; None where they are too much for a frame."""

@final
class CommandRun:
    """Plain commands of one kind on one key that came one behind the other in one `feed`; one is a run too.

    They are ``XLEN key``, ``XRANGE key start end COUNT n``, ``XACK key group id ...``, and ``XREADGROUP GROUP group
    consumer COUNT n [BLOCK ms] STREAMS key >``, as far as none can fail by its words: n is 1000 at most. A run ends
    with another key, group, consumer or command.
    """

    @property
    def name(self) -> str: ...  # Of the commands, in lower case
    @property
    def key(self) -> bytes: ...  # The stream's name
    @property
    def group(self) -> bytes: ...  # The group's name; empty where there is none
    @property
    def consumer(self) -> bytes: ...  # The consumer's name; empty where there is none
    @property
    def total(self) -> int: ...  # Entries that XREADGROUPs ask for, IDs that XACKs name
    @property
    def first_count(self) -> int: ...  # Entries that the first XREADGROUP asks for
    def __len__(self) -> int: ...  # Commands
    @property
    def lengths(self) -> int: ...  # How many XLENs there are; 0 where the commands are others
    def kin_total(self, other: CommandRun) -> int | None: ...  # Total; None if not of one command, key and group
    def rest(self, done: int) -> CommandRun: ...  # The run of the commands behind the first `done`
    def ids(self) -> list[EntryID]: ...  # Those that XACKs name
    def ranges(self) -> list[tuple[EntryID, EntryID, int]]: ...  # Of each XRANGE start, end, count
    def commands(self) -> list[list[bytes]]: ...  # Words that say the same, for when they must be run one by one

# Entries, bytes of names and values, and the two words of the digest.
_Digest: TypeAlias = tuple[int, int, int, int]

@final
class EntriesReply:
    """Takes the bytes of replies to XRANGE, in whatever pieces, and gives their entries as packed rows.

    A frame has about `frame_bytes`, and is handed over as soon as it is full: no reply is in memory as a whole.
    """

    def __new__(cls, frame_bytes: int) -> EntriesReply: ...
    def feed(
        self, data: bytes
    ) -> tuple[list[PackedRows], tuple[_Digest, EntryID | None, EntryID | None, bytes | None] | None]:
        """The frames that are full now; and once a reply is whole, its digest, first and last ID, and refusal.

        What follows a whole reply is kept: `feed(b"")` goes on with it. Raises ArgumentError where it is no reply to
        XRANGE, its IDs do not rise, or an entry is too large for a stream: nothing more can be made of it then.
        """
    @property
    def buffered_bytes(self) -> int: ...  # Bytes kept that are part of no whole entry

@final
class ReplyEncoder:
    """Writes replies, many in one call; made with the classes for what plain values cannot say.

    Those are, in order, `Status`, `ErrorReply`, `Map`, `Raw` and `NilArray` of `diskstream.commands.replies`.
    """

    def __new__(
        cls,
        status_type: type[Any],
        error_type: type[Any],
        map_type: type[Any],
        raw_type: type[Any],
        nil_array_type: type[Any],
    ) -> ReplyEncoder: ...
    def encode(self, replies: list[Any], resp3: bool) -> bytes:
        """The replies one behind the other. A `Delivery` has two elements, the second a null array where it is `gone`.

        Raises ArgumentError: more than 32 lists within each other, a number of more than 64 bits, or a value of a class
        that is no reply (ArgumentTypeError).
        """
