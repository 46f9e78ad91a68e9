"""What the tasks of asyncio that use one stream have in common: adds share a frame, acknowledgements a thread, and each
a flush where there is one.
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from diskstream._native import EntryID, check_rows
from diskstream.acknowledging import Acknowledged, acknowledge
from diskstream.aio_batches import Answers, Batches
from diskstream.aio_rows import as_of_now
from diskstream.engine.log import StreamLog
from diskstream.errors import StorageError
from diskstream.group import Group
from diskstream.ids import IDLike, parse_id
from diskstream.stream import Fields, Stream
from diskstream.taking import finish, relieve

__all__ = ["Sharing"]


class Sharing:
    """What waits to be added to one stream, with automatic IDs, and to be acknowledged in its groups."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._adds: Batches[Fields, EntryID] = Batches(lambda rows: _added(stream, rows))
        self._acks: Batches[tuple[bytes, Acknowledged], int] = Batches(lambda asked: _acknowledged(stream, asked))

    def add(self, fields: Fields) -> asyncio.Future[EntryID]:
        """Adds one entry; the ID, or the error, comes when it is durable. In the order of the calls.

        An add that is cancelled before its batch has begun is not made; later it may have been made all the same.
        """
        return self._adds.ask(as_of_now(fields))

    async def ack(self, group: bytes, ids: Sequence[IDLike], consumer: bytes | None = None) -> int:
        """Acknowledges entries of a group, with `consumer` what it still has. How many were pending.

        At once, where nothing is to be waited for, as adds are. What is cancelled may have been acknowledged all the
        same.
        """
        wanted = [parse_id(given) for given in ids]
        done = finish(Group(self._stream, group), wanted, consumer, _relieve_meanwhile)
        return done if done is not None else await self._acks.ask((group, (wanted, consumer)))


def _added(stream: Stream, rows: list[Fields]) -> Answers[EntryID]:
    """The ID of each row, or why it was not added."""
    if len(rows) > 1:
        try:
            return stream.add_many(rows, durable=True)
        except StorageError as error:
            return [error] * len(rows)
        except Exception:  # noqa: BLE001  # nothing was added: it is one row's fault, or they are too large together
            faults = [_fault(row) for row in rows]
            sound = [row for row, fault in zip(rows, faults, strict=True) if fault is None]
            if sound and len(sound) < len(rows):
                added = iter(_added(stream, sound))
                return [next(added) if fault is None else fault for fault in faults]
    return [_added_alone(stream, row) for row in rows]


def _fault(row: Fields) -> Exception | None:
    try:
        check_rows([row])
    except Exception as error:  # noqa: BLE001  # raised again in the task that adds
        return error
    return None


def _added_alone(stream: Stream, row: Fields) -> EntryID | Exception:
    try:
        return stream.add(row, durable=True)
    except Exception as error:  # noqa: BLE001  # raised again in the task that adds
        return error


def _relieve_meanwhile(log: StreamLog) -> None:
    # It tells nobody: where it fails, it is tried again as the pending entries grow.
    _ = asyncio.get_running_loop().run_in_executor(None, relieve, log)


def _acknowledged(stream: Stream, asked: list[tuple[bytes, Acknowledged]]) -> Answers[int]:
    """How many of each were pending, or why they were not acknowledged."""
    found: list[int | Exception] = []
    for name, of_group in groupby(asked, itemgetter(0)):
        acknowledged = [each for _, each in of_group]
        try:
            found += acknowledge(Group(stream, name), acknowledged)
        except Exception as error:  # noqa: BLE001  # raised again in the tasks
            found += [error] * len(acknowledged)
    return found
