"""A program that adds one entry more when its interpreter ends."""

import __main__
import diskstream
from tests.engine.children import hear, say


class _AddsAtTheEnd:
    """An object of a module is dropped when the interpreter is on its way out: this runs last, without its module."""

    def __init__(self, path: str, opened: str) -> None:
        self.store = diskstream.open(path, fsync="everysec")
        self.add, self.say = self.store.stream("a").add, say
        if opened == "before":
            self.add({"n": "before"})

    def __del__(self) -> None:
        try:
            self.say("added", self.add({"n": "last"}))
            self.store.close()
            self.say("closed")
        except BaseException as error:  # noqa: BLE001  # a panic of the core is no Exception
            self.say("failed", repr(error))


def adds_at_the_end(path: str, opened: str) -> None:
    __main__.kept = _AddsAtTheEnd(path, opened)
    say("ready")
    hear()
