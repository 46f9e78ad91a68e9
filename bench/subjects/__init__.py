"""The subjects, one module each; its docstring is the method that docs/performance.md prints."""

from __future__ import annotations

import inspect
import re
import time
from types import ModuleType

from bench.context import Context
from bench.model import Result


def all_subjects() -> dict[str, ModuleType]:
    """The subjects of an ordinary run, by name, in the order of the report."""
    from bench.subjects import (
        add,
        add_many,
        always,
        archive,
        backup,
        batches,
        codecs,
        group_latency,
        group_reads,
        growth,
        maintenance,
        pending,
        processes,
        profiles,
        queues,
        ranges,
        server,
        server_latency,
        sizes,
        spark,
        wakeup,
    )

    modules = (
        add,
        add_many,
        batches,
        always,
        processes,
        ranges,
        wakeup,
        group_reads,
        group_latency,
        queues,
        pending,
        growth,
        profiles,
        sizes,
        codecs,
        maintenance,
        backup,
        archive,
        server,
        server_latency,
        spark,
    )
    return {module.NAME: module for module in modules}


def blank(module: ModuleType) -> Result:
    """A result without rows, with the method from the module's docstring."""
    title, _, method = (inspect.getdoc(module) or "").partition("\n\n")
    return Result(module.NAME, title.rstrip("."), re.sub(r"(?<!\n)\n(?!\n)", " ", method).strip())


def run(module: ModuleType, context: Context, *size: int) -> Result:
    """Runs one subject; those that run alone are given a size."""
    result = blank(module)
    begin = time.monotonic()
    module.run(context, result, *size)
    result.seconds = round(time.monotonic() - begin, 1)
    return result
