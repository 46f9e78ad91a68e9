"""A Redis whose stream is moved to disk by an archiver that is killed: what is gone from the one is in the other."""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

import diskstream
from tests.archiving import steps
from tests.engine.children import until
from tests.kills.living import Ended, fresh, live
from tests.kills.strace import Call

__all__ = ["Source", "program"]


def program() -> str | None:
    """Where redis-server is; None where it is not installed."""
    return shutil.which("redis-server")


class Source:
    """A Redis server of its own, whose stream is made anew for each kill.

    Args:
        directory: for what the server, the stores and strace write.
        policy: of the store that is archived to.
    """

    def __init__(self, directory: Path, policy: str) -> None:
        self._directory, self._policy = directory, policy
        socket = directory / "redis.sock"
        self._url = f"unix://{socket}"
        server = program()
        assert server is not None, "there is no redis-server"
        words = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)]
        self._server = subprocess.Popen([server, *words], stdout=subprocess.DEVNULL)
        self._client: Any = redis.Redis.from_url(self._url)
        until(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()
        self._server.kill()
        self._server.wait()

    def _answers(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.ConnectionError:
            return False

    def killed(self, at: Call | None) -> Ended:
        """An archiver killed at a call, or not at all; then another one finishes the work.

        Raises:
            AssertionError: an entry is lost, or there twice, or was taken though a group had not acknowledged it.
        """
        self._client.flushall()
        store = str(fresh(self._directory / "archived") / "store")
        made: dict[str, bytes] = {}
        self._client.xgroup_create(steps.KEY, "workers", "0", mkstream=True)
        steps.produce(self._client, made, 0)
        self._archive(store)  # what the next one finds is a copy of a part
        steps.produce(self._client, made, 1)

        def work(_said: int) -> None:
            self._archive(store)

        inject = [] if at is None else [f"--inject={at.name}:signal=SIGKILL:when={at.nth}"]
        ended = live(self._directory, work, inject, lambda: None)
        steps.judge(self._client, store, made)
        self._archive(store)
        steps.judge(self._client, store, made)
        self._acknowledge_all()
        self._archive(store)
        assert steps.judge(self._client, store, made) == len(made), "an entry is left at the source"
        with diskstream.open(store, read_only=True) as opened:
            assert opened.verify().ok, "the copy is damaged"
        return ended

    def _archive(self, store: str) -> None:
        steps.archive(self._url, store, self._policy)

    def _acknowledge_all(self) -> None:
        pending = self._client.xpending_range(steps.KEY, "workers", "-", "+", 1 << 16)
        self._client.xack(steps.KEY, "workers", *(row["message_id"] for row in pending))
