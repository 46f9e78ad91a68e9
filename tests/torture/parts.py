"""The parts of the torture, by name: a module of this folder each."""

import importlib
from collections.abc import Callable
from typing import cast

from tests.torture.model import Budget, Report

__all__ = ["PARTS", "run_of", "summary_of"]

PARTS = (
    "power",
    "rot",
    "bytes",
    "crowd",
    "fuzz",
    "sanitize",
    "kills",
    "resources",
)


def run_of(name: str) -> Callable[[Budget], Report]:
    """What runs a part."""
    return cast(Callable[[Budget], Report], importlib.import_module(f"tests.torture.{name}").run)


def summary_of(name: str) -> str:
    """The first line of what a part says of itself."""
    return (importlib.import_module(f"tests.torture.{name}").__doc__ or "").partition("\n")[0]
