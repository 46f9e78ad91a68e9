"""Programs that end while a client waits."""

import asyncio
from pathlib import Path

from diskstream import compat
from tests.compat.backends import Compat
from tests.engine.children import say


def close_the_loop(path: str, kind: str) -> None:
    """The loop is closed over a task that waits for ever; nobody cancels it."""
    backend = Compat(Path(path))
    client = backend.aio()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.xgroup_create("s", "g", mkstream=True))
    tasks = [loop.create_task(waiting(client, kind))]
    loop.run_until_complete(asyncio.to_thread(backend.until_one_waits))
    loop.close()
    say(len(tasks), "left waiting")


async def waiting(client: compat.aio.Redis, kind: str) -> None:
    if kind == "xread":
        await client.xread({"s": "$"}, block=0)
    elif kind == "xreadgroup":
        await client.xreadgroup("g", "ann", {"s": ">"}, block=0)
    elif kind == "pipeline":
        await client.pipeline(transaction=False).xread({"s": "$"}, block=0).execute()
    else:
        pipe = client.pipeline()
        await pipe.watch("s")
        await pipe.xread({"s": "$"}, block=0)
