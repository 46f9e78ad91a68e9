"""One operation after the other, done by the model, by a store and by a server, and compared at every step."""

from collections.abc import Iterator
from typing import Any, Protocol

from tests.groups.grammar import KEYS
from tests.groups.model_commands import Model
from tests.groups.ops import OURS_ALONE, Op, brief, op
from tests.groups.our_side import agree
from tests.groups.their_side import TheirSide, coarse, now_ms
from tests.streams.commands import Refused

__all__ = ["Bout", "Clock", "DisagreementError", "Ours"]


class DisagreementError(AssertionError):
    """Two sides do not agree.

    Attributes:
        about: what it is about; a shorter sequence that comes to the same shows the same mistake.
    """

    def __init__(self, about: str, text: str) -> None:
        super().__init__(text)
        self.about = about


class Clock:
    """Milliseconds that pass when told to."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Ours(Protocol):
    """The side that is put to the test; a store but where mistakes are planted."""

    def run(self, given: Op, opening: int) -> Any:
        """The reply of one of two openings."""

    def close(self) -> None: ...

    def names(self) -> list[str]:
        """The streams that there are."""

    def complaints(self) -> list[str]:
        """What was amiss when it was opened."""

    def problems(self) -> list[str]:
        """What is wrong with what it holds."""


class Bout:
    """A run of operations from nothing on.

    The store and the model share a clock, and must agree exactly. The server has its own: it must agree with the model
    but for what 7.0 does not know yet, all of it named in `their_side.py`. So the model cannot be wrong unnoticed where
    the server can tell, and where it cannot, the model speaks for 8.x.
    """

    def __init__(self, clock: Clock, ours: Ours, theirs: TheirSide | None) -> None:
        self.clock, self.model = clock, Model(clock)
        self._ours, self._theirs = ours, theirs
        if theirs is not None:
            clock.now = now_ms()
            theirs.begin()

    def do(self, given: Op) -> None:
        """Does one operation on each side, compares the replies, and then all that can be seen."""
        if given.name == "advance":
            self.clock.now += given.args["ms"]
            return
        expected = self.model.run(given)
        if self._theirs is not None:
            self._same_as_theirs(given, expected, self._theirs.do(given, self.model, expected))
        _same_as_ours(given, expected, self._ours.run(given, given.by))
        everything = given.name in OURS_ALONE
        self.look(given.seen, KEYS if everything else given.keys, closely=everything)

    def end(self) -> None:
        """The last look at everything."""
        for opening in (0, 1, 2):
            self.look(opening, KEYS, closely=True)
        for what, found, expected in (
            ("names of streams", self._ours.names(), sorted(self.model.streams)),
            ("findings when it was opened", self._ours.complaints(), []),
            ("problems that verify finds", self._ours.problems(), []),
        ):
            if found != expected:
                raise DisagreementError(what, f"{what}\nours:     {found!r}\nexpected: {expected!r}")

    def look(self, opening: int, keys: list[str], *, closely: bool) -> None:
        """Compares all that can be seen of these streams."""
        looks = [look for key in dict.fromkeys(keys) for look in self._looks(key, closely=closely)]
        expected = [self.model.run(look) for look in looks]
        if self._theirs is not None:
            for look, reply, wanted in zip(looks, self._theirs.look(looks), expected, strict=True):
                self._same_as_theirs(look, wanted, reply)
        for look, wanted in zip(looks, expected, strict=True):
            _same_as_ours(look, wanted, self._ours.run(look, opening))

    def _looks(self, key: str, *, closely: bool) -> list[Op]:
        looks = [op("xinfo_full", key=key, count=0), op("xinfo_stream", key=key), op("xinfo_groups", key=key)]
        stream = self.model.streams.get(key)
        for name, found in sorted(stream.groups.items()) if stream is not None else ():
            within: dict[str, Any] = {"key": key, "group": name.decode()}
            everything = {**within, "start": "-", "end": "+", "count": 1000}
            looks += [op("xinfo_consumers", **within), op("xpending", **within), op("xpending_range", **everything)]
            if closely:
                looks += [op("xpending_range", **everything, consumer=name.decode()) for name in found.consumers]
        return looks

    def _same_as_theirs(self, given: Op, expected: Any, theirs: Any) -> None:
        assert self._theirs is not None
        alike = all(self._theirs.counts_alike(key) for key in given.keys)
        wanted = coarse(given, expected, self.clock(), counts_alike=alike)
        found = coarse(given, theirs, now_ms(), counts_alike=alike)
        if wanted != found:
            raise _disagreement(given, "the server (the model is wrong, or 7.0 differs)", found, wanted)


def _same_as_ours(given: Op, expected: Any, ours: Any) -> None:
    if given.name in ("xinfo_full", "xinfo_consumers") and not isinstance(expected, Refused):
        expected = _with_seen(given, expected, ours)
    if given.name == "xinfo_stream" and isinstance(expected, dict) and isinstance(ours, dict):
        # Refused duplicates change nothing and so are not in the log: each opening counts those that it refused itself.
        expected = {**expected, b"iids-duplicates": ours[b"iids-duplicates"]}
    if given.name == "xreadgroup":
        # Redis says that a history is empty; in Python an empty list or no list for a stream is the same.
        ours, expected = _without_empty(ours), _without_empty(expected)
    if not agree(ours, expected):
        raise _disagreement(given, "ours", ours, expected)


def _with_seen(given: Op, expected: Any, ours: Any) -> Any:
    """What is expected, with our word for when consumers were seen where it is near enough.

    An attempt that found nothing is not written down where the consumer was seen within the last tenth of a second.
    """
    if given.name == "xinfo_full" and isinstance(ours, dict):
        groups = zip(expected[b"groups"], ours[b"groups"], strict=False)
        seen = [{**group, b"consumers": _near(group[b"consumers"], found[b"consumers"])} for group, found in groups]
        return {**expected, b"groups": seen}
    return expected if isinstance(ours, Refused) else _near(expected, ours)


def _near(expected: list[Any], ours: list[Any]) -> list[Any]:
    if len(expected) != len(ours) or not ours:
        return expected
    name = b"seen-time" if b"seen-time" in ours[0] else b"idle"
    return [
        {**wanted, name: found[name]} if abs(wanted[name] - found[name]) < 100 else wanted
        for wanted, found in zip(expected, ours, strict=True)
    ]


def _without_empty(reply: Any) -> Any:
    return reply if isinstance(reply, Refused) else [found for found in reply or () if found[1]]


def _disagreement(given: Op, who: str, found: Any, expected: Any) -> DisagreementError:
    differences = list(_differences(found, expected))
    listed = "".join(f"\n  at {list(at)}: {_short(one)} instead of {_short(other)}" for at, one, other in differences)
    text = f"{given}\n{who}: {_short(found)}\nexpected: {_short(expected)}{listed}"
    names = [place for place in differences[0][0] if not isinstance(place, int)]
    refusal = expected if isinstance(expected, Refused) else ""
    return DisagreementError(f"{given.name}, {who} {names} {refusal}", text)


def _short(value: Any) -> str:
    text = brief(repr(value))
    return text if len(text) < 3000 else f"{text[:3000]}..."


def _differences(found: Any, expected: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Where two replies differ, and how."""
    if isinstance(found, dict) and isinstance(expected, dict):
        places = [(name, found.get(name), expected.get(name)) for name in {**expected, **found}]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        places = [(place, *pair) for place, pair in enumerate(zip(found, expected, strict=True))]
    else:
        yield at, found, expected
        return
    for place, one, other in places:
        if one != other:
            yield from _differences(one, other, (*at, place))
