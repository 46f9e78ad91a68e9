"""What `import diskstream` offers, and that it stays light."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream import errors
from tests.test_docs import INNER


def test_every_exported_name_is_there_and_belongs_to_the_package() -> None:
    for name in diskstream.__all__:
        assert hasattr(diskstream, name), name
    assert {"Store", "Stream", "Entry", "EntryID", "open", "CorruptionError"} <= set(diskstream.__all__)


def test_every_error_is_of_the_one_tree_and_drawn_in_it() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and each.__module__ == errors.__name__]
    assert len(classes) > 30
    assert all(issubclass(each, errors.DiskstreamError) for each in classes)
    assert {each.__name__ for each in classes} - set(errors.__all__) == set()
    for each in classes:
        assert each.__name__ in (errors.__doc__ or ""), each


def test_every_error_is_exported_as_the_pages_name_it() -> None:
    """`except diskstream.LostObjectError`, as docs/operating.md has it, was an AttributeError."""
    assert {name for name in errors.__all__ if name.endswith("Error")} - set(diskstream.__all__) == set()


@pytest.mark.parametrize("kind", [diskstream.Store, diskstream.Stream, diskstream.Group, diskstream.Consumer])
def test_what_a_public_method_returns_has_a_name_in_the_package(kind: type) -> None:
    """Whoever wants to say so in a type had to find out in which module it is."""
    methods = [getattr(kind, name) for name in dir(kind) if name[0] != "_" and name not in INNER]
    returned = " ".join(str(getattr(method, "__annotations__", {}).get("return")) for method in methods)
    named = set(re.findall(r"diskstream\.(?:\w+\.)*(\w+)", returned))
    assert named
    assert named - set(diskstream.__all__) == set()


def test_importing_the_package_loads_nothing_for_the_terminal_or_for_columns() -> None:
    program = "import sys, diskstream; print([m for m in ('click', 'rich', 'pyarrow', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_program_that_adds_and_reads_loads_nothing_that_verifies_or_repairs(tmp_path: Path) -> None:
    """That was a quarter of its start."""
    program = """
import sys
import diskstream

with diskstream.open(sys.argv[1]) as store:
    store.stream("s").add({"n": 1})
    assert len(list(store.stream("s").range())) == 1
rare = ("verify", "repair", "salvage", "verify_store")
print([name for name in rare if f"diskstream.engine.{name}" in sys.modules], "importlib.metadata" in sys.modules)
from diskstream import *
print(repair.__module__, verify(sys.argv[1]).ok, Repair.__name__, diskstream.__version__ > "0")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[] False", "diskstream.repairing True Repair True"]


def test_what_is_loaded_on_demand_is_named_like_everything_else() -> None:
    assert set(diskstream.__all__) <= set(dir(diskstream))
    with pytest.raises(AttributeError, match="module 'diskstream' has no attribute 'repare'"):
        _ = diskstream.repare  # type: ignore[attr-defined]  # misspelt


IMPORT_BARE = """
import sys
sys.modules["pyspark"] = None
import diskstream
try:
    import {name}
except ImportError as error:
    print(isinstance(error, diskstream.DiskstreamError), error.name, error)
"""


@pytest.mark.parametrize("name", ["diskstream.spark", "diskstream.spark.jobs.archive", "pyspark_diskstream"])
def test_what_needs_spark_says_how_it_is_installed(name: str) -> None:
    program = IMPORT_BARE.format(name=name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True pyspark diskstream.spark needs pyspark: pip install 'diskstream[spark]'"
