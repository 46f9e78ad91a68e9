"""What `import diskstream` offers, and that it stays light."""

import subprocess
import sys

import pytest

import diskstream
from diskstream import errors


def test_every_exported_name_is_there_and_belongs_to_the_package() -> None:
    for name in diskstream.__all__:
        assert hasattr(diskstream, name), name
    assert {"Store", "Stream", "Entry", "EntryID", "open", "CorruptionError"} <= set(diskstream.__all__)


def test_every_error_is_of_the_one_tree_and_drawn_in_it() -> None:
    classes = [getattr(errors, name) for name in errors.__all__ if name != "storage_error"]
    assert all(issubclass(each, errors.DiskstreamError) for each in classes)
    for each in classes:
        assert each.__name__ in (errors.__doc__ or ""), each


def test_importing_the_package_loads_nothing_for_the_terminal_or_for_columns() -> None:
    program = "import sys, diskstream; print([m for m in ('click', 'rich', 'pyarrow', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
