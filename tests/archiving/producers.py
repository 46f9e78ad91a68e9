"""Streams that are added to and read by groups while somebody archives them."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import redis

AT_ONCE = 20


@dataclass
class Traffic:
    """Producers and a consumer of each stream, in threads of their own; what was produced is known to the last entry.

    A kill of the archiver is none of theirs: they go on until they are told to stop, or have made `most` of each.
    """

    url: str
    keys: list[str]
    most: int
    made: dict[str, dict[str, tuple[bytes, ...]]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _faults: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        for key in self.keys:
            client = redis.Redis.from_url(self.url)
            client.xgroup_create(key, "workers", "0", mkstream=True)
            client.xgroup_create(key, "slow", "0")
            self.made[key] = {}
            for work in (self._produce, self._consume):
                self._threads.append(threading.Thread(target=self._guarded, args=(work, key), name=f"{key} traffic"))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all, and raises what went wrong in one of them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]

    def _guarded(self, work: Callable[[Any, str], None], key: str) -> None:
        try:
            with redis.Redis.from_url(self.url) as client:
                work(client, key)
        except BaseException as error:  # noqa: BLE001  # raised by who stops the traffic
            self._faults.append(error)

    def _produce(self, client: Any, key: str) -> None:
        chance = random.Random(key)
        made = self.made[key]
        while not self._stop.is_set() and len(made) < self.most:
            rows = [{b"n": b"%d" % (len(made) + each), b"text": b"x" * chance.randrange(40)} for each in range(AT_ONCE)]
            pipeline = client.pipeline(transaction=False)
            for row in rows:
                pipeline.xadd(key, row)
            for entry_id, row in zip(pipeline.execute(), rows, strict=True):
                made[entry_id.decode()] = tuple(row.values())
            self._stop.wait(0.002)

    def _consume(self, client: Any, key: str) -> None:
        """Both groups are given all; one is done at once, the other is fifty entries behind."""
        left: list[bytes] = []
        while not self._stop.is_set():
            for group in ("workers", "slow"):
                found = client.xreadgroup(group, "one", {key: ">"}, count=500)
                ids = [entry_id for _, entries in found for entry_id, _ in entries]
                if group == "slow":
                    left += ids
                    ids, left = left[:-50], left[-50:]
                if ids:
                    client.xack(key, group, *ids)
            self._stop.wait(0.005)

    def acknowledge_all(self) -> None:
        """What the consumers have not read or acknowledged, once the traffic has stopped."""
        with redis.Redis.from_url(self.url) as client:
            for key in self.keys:
                for group in ("workers", "slow"):
                    while client.xreadgroup(group, "one", {key: ">"}, count=5000):
                        pass
                    while rows := client.xpending_range(key, group, "-", "+", 5000):
                        client.xack(key, group, *(row["message_id"] for row in rows))
