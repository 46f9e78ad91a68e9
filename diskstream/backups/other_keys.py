"""What a server keeps beside the streams of a store: keys of other types, whose names no stream can have.

A stream of such a name could not be reached: commands find the other key. The records are those of docs/format/keys.md.
"""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from diskstream import store as stores
from diskstream.backups.repository import BackupError
from diskstream.errors import quoted
from diskstream.ids import MIN_ID, EntryID
from diskstream.stream import Stream
from diskstream.system_calls import exclusively, is_there

__all__ = ["OtherKeys"]

_DATABASE: Final = re.compile(r"db([1-9]\d*)")


class OtherKeys:
    """The keys of other types of the database that a store is; none where no server has used it."""

    def __init__(self, store: Path) -> None:
        """Looks for them.

        Args:
            store: its directory: that of a server, or of one of its further databases.
        """
        self._store = store
        resolved = store.resolve()
        database = _DATABASE.fullmatch(resolved.name)
        places = [(resolved / "keys", b"0")] + ([(resolved.parent / "keys", database[1].encode())] if database else [])
        self._places = [(path, place) for path, place in places if is_there(path / "store.json")]
        self._known: dict[Path, tuple[EntryID, dict[bytes, str]]] = {}

    def refuse(self, names: Iterable[bytes]) -> None:
        """Makes sure that none of these names is one of theirs.

        Raises:
            BackupError: one is.
            CorruptionError: what is known of keys cannot be read.
        """
        for path, place in self._places:
            kinds = self._kinds(path, place)
            for name in names:
                if name in kinds:
                    raise BackupError(
                        self._store,
                        f"the server's key {quoted(name)} there is a {kinds[name]}, and hides a stream of that name",
                        "--as gives the restored one another name; or remove that key by DEL",
                    )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No server makes or removes one meanwhile."""
        with contextlib.ExitStack() as held:
            for path, _ in self._places:
                with contextlib.suppress(FileNotFoundError):
                    held.enter_context(exclusively(path / "lock"))
            yield

    def _kinds(self, path: Path, place: bytes) -> dict[bytes, str]:
        """Their types by name, read anew where something was changed since the last look."""
        with stores.open(path, read_only=True, create=False) as store:
            records = store.stream("keys")
            if not records.exists():
                return {}
            last = records.last_id()
            seen, kinds = self._known.get(path, (MIN_ID, {}))
            if last != seen:
                kinds = _read(records, place)
                self._known[path] = last, kinds
            return kinds


def _read(records: Stream, place: bytes) -> dict[bytes, str]:
    kinds: dict[bytes, str] = {}
    now_ms = time.time_ns() // 1_000_000
    for entry in records:
        word, name = entry.pairs[0]
        fields = dict(entry.pairs[1:5])  # all but the elements
        if word == b"clear" and name == place:
            kinds.clear()
        elif word in (b"put", b"gone") and fields.get(b"place") == place:
            kinds.pop(name, None)
            kind, expires = fields.get(b"kind", b""), fields.get(b"expires", b"")
            # One whose time has come hides nothing: whoever looks at it removes it.
            if word == b"put" and kind and not (expires and int(expires) <= now_ms):
                kinds[name] = kind.decode("ascii", "backslashreplace")
    return kinds
