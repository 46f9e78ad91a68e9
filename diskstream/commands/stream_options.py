"""Options that several stream commands share: what becomes of references, how to trim, lists of IDs."""

from dataclasses import dataclass, field
from typing import Any

from diskstream._native import EntryID
from diskstream.commands.arguments import INT_MAX, Words, as_int
from diskstream.commands.failures import SYNTAX
from diskstream.commands.id_words import as_id
from diskstream.commands.replies import Failure

__all__ = ["REFS", "Trimming", "counted_ids"]

REFS = (b"KEEPREF", b"DELREF", b"ACKED")
_NEGATIVE = "ERR The %s argument must be >= 0."
_BOTH = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
_NO_STRATEGY = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
_NOT_EXACT = "ERR syntax error, LIMIT cannot be used without the special ~ option"


@dataclass
class Trimming:
    """The options of XADD and XTRIM that say how to trim, as they are met; `given` is what `Stream.trim` takes."""

    given: dict[str, Any] = field(default_factory=dict)
    limit_given: bool = False

    def take(self, words: Words) -> bool:
        """Takes the option that comes next, if it is one of these.

        Raises:
            Failure: it is, and its value is wrong.
        """
        option = words.option()
        if option in REFS:
            words.take()
            if "ref" in self.given:
                raise Failure(SYNTAX)
            self.given["ref"] = option.decode()
        elif words.left < 2:  # an option that takes a value needs one behind it
            return False
        elif option in (b"MAXLEN", b"MINID"):
            self._strategy(words)
        elif option == b"LIMIT":
            words.take()
            self.given["limit"] = limit = words.take_int()
            if limit < 0:
                raise Failure(_NEGATIVE % "LIMIT")
            self.limit_given = True
        else:
            return False
        return True

    def _strategy(self, words: Words) -> None:
        name = words.take_option().lower().decode()
        if self.strategy:
            raise Failure(_BOTH)
        if words.left > 1 and words.option() in (b"~", b"="):
            self.given["approximate"] = words.take_option() == b"~"
        if name == "minid":
            self.given[name] = as_id(words.take())
        else:
            self.given[name] = length = words.take_int()
            if length < 0:
                raise Failure(_NEGATIVE % "MAXLEN")

    @property
    def strategy(self) -> bool:
        """Whether something is to be trimmed."""
        return "maxlen" in self.given or "minid" in self.given

    def check(self, *, must_trim: bool = False) -> None:
        """Once all options were taken.

        Raises:
            Failure: LIMIT goes with nothing that is there, or nothing says how to trim though it must.
        """
        if self.limit_given and self.given["limit"] and not self.strategy:
            raise Failure(_NO_STRATEGY)
        if must_trim and not self.strategy:
            raise Failure("ERR syntax error, XTRIM must be called with a trimming strategy")
        if self.limit_given and not self.given.get("approximate"):
            raise Failure(_NOT_EXACT)


def counted_ids(words: Words, *, count_error: str, match_error: str) -> list[EntryID]:
    """The IDs behind ``IDS``: their number, and so many of them.

    Raises:
        Failure: the number is none or does not fit, or one is no ID.
    """
    words.take()
    count = as_int(words.take() if words else b"", count_error, least=1, most=INT_MAX)
    if count > words.left:
        raise Failure(match_error)
    return [as_id(words.take()) for _ in range(count)]
