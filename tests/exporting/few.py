"""A process that exports more streams than it has descriptors for."""

import resource
from pathlib import Path

import diskstream
from diskstream.exporting import ExportRequest, export_directory
from tests.engine.children import say


def export_short(path: str, target: str, limits: list[int]) -> None:
    """Says how many parts there are under each limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in limits:
        with diskstream.open(path, read_only=True) as store:
            request = ExportRequest(store.streams(), "jsonl")
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            say(export_directory(store, request, Path(target) / str(limit), rows_per_file=1).files)
