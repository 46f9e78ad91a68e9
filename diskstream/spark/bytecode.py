"""Bytecode for what each of Spark's Python processes imports first: its own package, from a file without any.

Spark puts ``pyspark.zip``, which holds sources alone, before all else on the path of the processes that it starts: one
for each executor, from which workers of tasks are forked, and one for each streaming query that reads from Python. Each
compiles some hundred modules anew, a second of one core on a slow machine, before it looks at anything. Python takes
bytecode from a zip file where it finds it beside a source (``zipimport``):

    python -m diskstream.spark.bytecode

puts it there, once for an installation and a version of Python. Another Python passes it over and compiles as before;
an update of PySpark brings a new file, without.
"""

import importlib.util
import py_compile
import shutil
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Final

from diskstream.errors import DiskstreamError
from diskstream.plurals import number_of
from diskstream.spark.jobs.java import spark_home

__all__ = ["add_bytecode", "spark_archive"]

_LEFT_OUT: Final = "/tests/"


def spark_archive() -> Path:
    """The file that this Python's Spark puts on the path of its processes.

    Raises:
        DiskstreamError: there is none, as with a PySpark that only connects to servers.
    """
    archive = spark_home() / "python" / "lib" / "pyspark.zip"
    if not archive.is_file():
        raise DiskstreamError(f"{archive} is not there: this PySpark starts no Python processes; nothing is to be done")
    return archive


def add_bytecode(archive: Path) -> int:
    """Puts bytecode beside the sources of a zip file, but for tests.

    Whoever has the file open goes on with the one that he has, and finds each source where it was, as the new one
    begins with all of it; unless it held bytecode of another Python, in place of which this one's comes.

    Returns:
        How many modules were compiled: none where all were.

    Raises:
        DiskstreamError: it is no zip file.
        OSError: the file cannot be replaced, as where another user has installed it. It is as before then.
    """
    try:
        with zipfile.ZipFile(archive) as held:
            compiled = {name for name in held.namelist() if name.endswith(".pyc")}
            is_foreign = any(not _is_ours(held, name) for name in compiled)
            with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".bytecode-") as scratch:
                made = _compiled(held, set() if is_foreign else compiled, archive, Path(scratch))
                if not made:
                    return 0
                new = Path(scratch, archive.name)
                if is_foreign:
                    _copy_sources(held, new)
                else:
                    shutil.copyfile(archive, new)
                with zipfile.ZipFile(new, "a", zipfile.ZIP_DEFLATED) as grown:
                    for entry, code in made:
                        grown.writestr(entry, code, zipfile.ZIP_DEFLATED)
                shutil.copymode(archive, new)
                new.replace(archive)
    except zipfile.BadZipFile as error:
        raise DiskstreamError(f"{archive} is no zip file ({error}): install PySpark anew") from error
    return len(made)


def _is_ours(held: zipfile.ZipFile, name: str) -> bool:
    with held.open(name) as file:
        return file.read(len(importlib.util.MAGIC_NUMBER)) == importlib.util.MAGIC_NUMBER


def _compiled(
    held: zipfile.ZipFile, done: set[str], archive: Path, scratch: Path
) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Entries for the sources that are not `done`, whose place is to be `archive`."""
    made = []
    source, compiled = scratch / "source.py", scratch / "source.pyc"
    # By a hash of the source, which nobody compares (PEP 552): what goes by its time is not taken where the time zone
    # is another, as the times in a zip file are local ones.
    how = py_compile.PycInvalidationMode.UNCHECKED_HASH
    names = (name for name in held.namelist() if name.endswith(".py") and _LEFT_OUT not in f"/{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        for name in names:
            if f"{name}c" in done:
                continue
            source.write_bytes(held.read(name))
            try:
                py_compile.compile(str(source), str(compiled), str(archive / name), doraise=True, invalidation_mode=how)
            except (py_compile.PyCompileError, ValueError):  # for another Python: whoever imports it is told so
                continue
            entry = zipfile.ZipInfo(f"{name}c", held.getinfo(name).date_time)
            entry.external_attr = held.getinfo(name).external_attr
            made.append((entry, compiled.read_bytes()))
    return made


def _copy_sources(held: zipfile.ZipFile, made: Path) -> None:
    with zipfile.ZipFile(made, "w") as new:
        for each in held.infolist():
            if not each.filename.endswith(".pyc"):
                new.writestr(each, held.read(each))


def main() -> None:
    """Says what was done, or in a line why not."""
    try:
        archive = spark_archive()
        done = add_bytecode(archive)
    except (DiskstreamError, OSError, ImportError) as error:
        sys.exit(str(error))
    said = (
        number_of(done, "module was compiled", "modules were compiled") if done else "all modules were compiled before"
    )
    sys.stdout.write(f"{archive}: {said}\n")


if __name__ == "__main__":
    main()
