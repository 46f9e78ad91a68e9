"""Replays that are killed, by whom they are sent to."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diskstream import Entry
from diskstream.replaying import Job, Outcome, StreamSink, ToRedis, ToStream, run_job
from diskstream.replaying.redis_sink import RedisSink
from tests.engine.children import say
from tests.engine.forks import ended, forked


def _dying(owner: Any, *, before: bool) -> None:
    """Lets this process be killed at the second batch: before it is sent, or just after."""
    send, calls = owner.send, 0

    def send_and_die(self: Any, entries: Sequence[Entry]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, entries)
        if calls == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    owner.send = send_and_die


def _run(job: Job, *, before: bool) -> None:
    _dying(StreamSink, before=before)
    _dying(RedisSink, before=before)
    run_job(job)


def killed(source: str, target: str, ids: str) -> None:
    """Kills a replay of `x`, at speed, at every second batch, until it gets to its end."""
    to = ToRedis(target, b"copy") if "://" in target else ToStream(Path(target), b"copy")
    job = Job(Path(source), b"x", to, keep_ids=ids == "keep", speed=None)
    kills = 0
    while (code := ended(forked(lambda: _run(job, before=kills % 2 == 0)))) != 0:
        assert code == -signal.SIGKILL, code
        kills += 1
    outcome: Outcome = run_job(replace(job))
    say(kills, outcome.complete, outcome.replayed.seen)


def slow(source: str, target: str) -> None:
    """A replay that takes for ever, until it is stopped by SIGINT."""
    from diskstream.cli import main

    main(["replay", "x", "--dir", source, "--to", f"stream:copy@{target}", "--speed", "0.001"])
