"""What a round of a crowd is like: who takes part, and with which options; drawn from a seed."""

import random
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["GROUPS", "POLICIES", "Scene", "draw", "key_of", "row_of"]

_EACH = ("always", "everysec", "interval=200", "os")
# With "mixed", each process has a policy of its own.
POLICIES = (*_EACH, "mixed")
# A longer round is a slower one: all that is noted in it is held in memory by its checker.
_FAST_S = 300.0
# What follows from an operation of a producer takes ten times its own time, so several crowds go slower by more.
_SLOWER = 8
_WAYS = "store", "store", "compat", "asyncio"
# Of each stream. Of "x" much is asked; on "quiet" little happens, so that its readers wait.
GROUPS = {"x": ("g", "h"), "quiet": ("g",)}
_REMOVALS = ("none", "KEEPREF", "DELREF", "ACKED", "mixed", "KEEPREF")


@dataclass(frozen=True)
class Scene:
    """A round.

    Attributes:
        removal: with which regard to groups entries go; "mixed" takes each in turn, "none" leaves all there.
        rule: whether a rule of retention does it too.
        cold: whether sealed segments are moved to object storage, in a folder, and back.
        pause_s: what a producer waits between two operations, and a consumer that was given nothing, at most.
        event_s: what the supervisor waits between two kills, at most.
        stop_s: how long a process is stopped, at most.
        servers: so many serve the store.
        ways: how producers, consumers and readers do what they do, one for each life by chance: by the methods of a
            "store", or by commands of Redis that a "server" answers, or "compat", or "asyncio" (compat's).
        beside: how many crowds are at work on this machine.
    """

    seed: int
    policy: str
    seconds: float
    producers: int
    consumers: int
    readers: int
    segment_bytes: int
    node_max_entries: int
    pending_rows: int
    max_open_streams: int
    seal: str
    removal: str
    rule: bool
    cold: bool
    pause_s: float
    event_s: float
    stop_s: float
    servers: int = 0
    ways: Sequence[str] = ("store",)
    beside: int = 1

    def options(self, chance: random.Random) -> dict[str, Any]:
        """How a process opens the store."""
        return {
            "fsync": chance.choice(_EACH) if self.policy == "mixed" else self.policy,
            "segment_bytes": self.segment_bytes,
            "node_max_entries": self.node_max_entries,
            "pending_rows": self.pending_rows,
            "max_open_streams": self.max_open_streams,
            "seal": self.seal,
            "retention_interval_ms": 100 if self.rule else 0,
        }

    def way_of(self, role: str, life: int) -> str:
        """Which of the ways a life goes."""
        if role[0] not in "pcrqwf" or not role[1:].isdigit():
            return "store"
        return random.Random(f"way {self.seed} {self.policy} {role} {life}").choice(self.ways)

    def roles(self) -> list[str]:
        """The names of all who take part; the first letter says what each does."""
        names = [f"p{n}" for n in range(self.producers)] + [f"c{n}" for n in range(self.consumers)]
        names += [f"r{n}" for n in range(self.readers)] + ["q0", "w0", "w1", "f0"]
        names += [f"s{n}" for n in range(self.servers)]
        names += ["sealer", "backup", "verifier", "namer"]
        return names + (["trimmer"] if self.removal != "none" else []) + (["mover"] if self.cold else [])

    def told(self) -> str:
        """The scene, so that it can be had again."""
        return f"crowd, {asdict(self)}"


def draw(seed: int, policy: str, seconds: float, *, small: bool, beside: int = 1) -> Scene:
    """The scene of a seed; all of `beside` crowds at work on one machine take it slower."""
    chance = random.Random(f"scene {seed} {policy}")
    removal = chance.choice(_REMOVALS)
    return Scene(
        seed=seed,
        policy=policy,
        seconds=seconds,
        producers=3 if small else 16,
        consumers=4 if small else 16,
        readers=2 if small else 4,
        segment_bytes=chance.choice((8 << 10, 16 << 10, 64 << 10)),
        node_max_entries=chance.choice((4, 16, 512)),
        pending_rows=chance.choice((1, 4, 64, 4096)),
        max_open_streams=chance.choice((1, 256, 256)),
        seal=chance.choice(("background", "background", "manual")),
        removal=removal,
        rule=removal != "none" and chance.random() < 0.5,  # half of them
        cold=chance.random() < 0.5,
        pause_s=0.01 if small else 0.08 * max(_SLOWER * beside if beside > 1 else 1, seconds / _FAST_S),
        event_s=0.2 if small else 0.5 * beside,
        stop_s=0.4 if small else 4.0,
        servers=(servers := chance.choice((0, 1, 2))),
        ways=(*_WAYS, "server", "server") if servers else _WAYS,
        beside=beside,
    )


# --- entries, of which each says whose it is and what belongs into it -------------------------------------------------


def key_of(role: str, life: int, number: int) -> str:
    """What a producer calls an entry; nobody uses it twice."""
    return f"{role}.{life}.{number}"


def row_of(key: str) -> list[tuple[bytes, bytes]]:
    """The fields of an entry: they follow from its key, so that any reader sees whether they are right."""
    name, draw = key.encode(), zlib.crc32(key.encode())
    size = (3, 10, 10, 10, 40, 40, 300)[draw % 7] if draw % 331 else 6000
    row = [(b"k", name), (b"pad", (name * (size // len(name) + 1))[:size])]
    if draw % 5 == 0:
        row.insert(1, (b"more", b"%d" % draw))
    return row
