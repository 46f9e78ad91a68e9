"""What a stream says of itself."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from diskstream.engine.log import StreamLog
from diskstream.errors import NoSuchStreamError
from diskstream.info import StreamInfo, StreamSummary, describe, summarize

__all__ = ["Described"]

_T = TypeVar("_T")


class Described:
    """The part of `Stream` that tells what there is to know of it."""

    _name: bytes

    if TYPE_CHECKING:

        def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T: ...

    def info(self) -> StreamInfo:
        """What XINFO STREAM says, and what is on disk: takes longer the more segments there are.

        Raises:
            NoSuchStreamError: there is no stream.
        """
        return self._known(describe)

    def summary(self) -> StreamSummary:
        """What XINFO STREAM says: takes as long however many segments there are.

        Raises:
            NoSuchStreamError: there is no stream.
        """
        return self._known(summarize)

    def _known(self, look: Callable[[bytes, StreamLog], _T]) -> _T:
        found: _T | None = self._use(lambda log: look(self._name, log), None)
        if found is None:
            raise NoSuchStreamError(self._name)
        return found
