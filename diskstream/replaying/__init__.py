"""Entries of a range sent again, at a pace: into a stream, a Redis, or anything that takes them."""

from diskstream.replaying.conditions import Condition, parse_condition
from diskstream.replaying.job import Job, Measured, Outcome, ToCall, ToRedis, ToStream, measure, run_job
from diskstream.replaying.pacing import SLOWEST, Pacer
from diskstream.replaying.redis_sink import RedisSink
from diskstream.replaying.run import Replayed, replay
from diskstream.replaying.sinks import CallSink, Sink, StreamSink

__all__ = [
    "SLOWEST",
    "CallSink",
    "Condition",
    "Job",
    "Measured",
    "Outcome",
    "Pacer",
    "RedisSink",
    "Replayed",
    "Sink",
    "StreamSink",
    "ToCall",
    "ToRedis",
    "ToStream",
    "measure",
    "parse_condition",
    "replay",
    "run_job",
]
