"""Reads what callgrind dumps: instructions by the function and the file of machine code that they are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CLOCK = "clock_gettime"


@dataclass
class Dump:
    """One dump.

    Attributes:
        instructions: all that were counted.
        functions: those spent in each function itself, by object and name.
        calls: how often each function was called, by name.
        system_calls: how many, and `system_ns` the processor time in them. Without those that read a clock: on the
            bare processor they are none.
    """

    instructions: int = 0
    system_calls: int = 0
    system_ns: int = 0
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def objects(self) -> Counter[str]:
        """The instructions by object alone."""
        found: Counter[str] = Counter()
        for (where, _), count in self.functions.items():
            found[where] += count
        return found


def read(path: Path) -> Dump:
    """Reads one dump, made with --compress-strings=no and --compress-pos=no."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return parse(lines)


def parse(lines: Iterable[str]) -> Dump:
    """The same from its lines.

    A line of costs below `calls=` is what the called function cost, which stands below that function as well.
    """
    dump = Dump()
    place, function, called, is_call = "", "", "", False
    for line in lines:
        name, _, value = line.rstrip("\n").partition("=")
        if line[:1].isdigit():
            if not is_call:
                # The columns of --collect-systime, which are left out where they are 0: calls, elapsed, processor time.
                cost, made, _, took = ([*map(int, line.split()[1:]), 0, 0, 0])[:4]
                dump.functions[place, function] += cost
                dump.instructions += cost
                if not function.startswith(CLOCK):
                    dump.system_calls += made
                    dump.system_ns += took
            is_call = False
        elif name == "ob":
            place = value.rpartition("/")[2]
        elif name == "fn":
            function = value
        elif name == "cfn":
            called = value
        elif name == "calls":
            dump.calls[called] += int(value.split()[0])
            is_call = True
    return dump
