"""Going over all streams of a store: one that cannot be read is told of, and the others are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import diskstream
from diskstream.cli.advice import for_command
from diskstream.cli.failure import Failure
from diskstream.cli.options import existing_stream, whole
from diskstream.cli.output import text, write_json

__all__ = ["OF_ONE", "EachStream", "tell_failed"]

# They say nothing of other streams: damage, a file of a later version, one that this user may not read, and segments
# that somebody else is moving.
OF_ONE = (
    diskstream.CorruptionError,
    diskstream.NewerFormatError,
    diskstream.StorageError,
    diskstream.ChangedError,
)


def tell_failed(name: bytes, error: diskstream.DiskstreamError, *, as_json: bool) -> None:
    """Tells of a stream with which it cannot be done: whoever looks, and with `as_json` a program, by an object."""
    if as_json:
        write_json(_facts(name, error))
    _show(name, error)


def _show(name: bytes, error: diskstream.DiskstreamError) -> None:
    Failure(f"{text(name)}: {error}", hint=getattr(error, "hint", None)).show()


def _facts(name: bytes, error: diskstream.DiskstreamError) -> dict[str, Any]:
    return {"stream": name, "error": for_command(str(error)), "hint": getattr(error, "hint", None)}


class EachStream:
    """The stream of that name, which must be there, or all streams of a store.

    Attributes:
        streams: them, in the order of their names.
        failed: how many were told of, as they cannot be done.
    """

    def __init__(
        self,
        store: diskstream.Store,
        name: bytes | None,
        *,
        on_failed: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Looks which they are; `on_failed` gets what a program is told of each that failed, also of a full disk."""
        self.streams = list(map(store.stream, store.streams())) if name is None else [existing_stream(store, name)]
        self.failed = 0
        self._are_all = name is None
        self._on_failed = on_failed
        self._begun = 0

    @contextmanager
    def doing(self, stream: diskstream.Stream) -> Iterator[None]:
        """What is done with one of them. One of all that is removed meanwhile is passed over.

        Raises:
            DiskFullError: so it would be with the next.
        """
        self._begun += 1
        try:
            yield
        except diskstream.NoSuchStreamError:
            if not self._are_all:
                raise
        except diskstream.DiskFullError as error:
            self._note(stream, error)
            raise
        except OF_ONE as error:
            self.tell(stream, error)

    def doing_what(self, doing: str, stream: diskstream.Stream) -> str:
        """What a bar is called: the stream that it is `doing`, and of several also which of how many that is."""
        position = f" ({self._begun:,} of {len(self.streams):,})" if len(self.streams) > 1 else ""
        return f"{doing} {text(stream.name)}{position}"

    def tell(self, stream: diskstream.Stream, error: diskstream.DiskstreamError) -> None:
        """Tells of what cannot be done with one of them."""
        self.failed += 1
        self._note(stream, error)
        _show(stream.name, error)

    def _note(self, stream: diskstream.Stream, error: diskstream.DiskstreamError) -> None:
        if self._on_failed is not None:
            self._on_failed(_facts(stream.name, error))

    def whole(self) -> list[diskstream.Stream]:
        """Those that can be read, each of the others told of: for what looks at all of them at once."""
        found = []
        for stream in self.streams:
            with self.doing(stream):
                found.append(whole(stream))
        return found
