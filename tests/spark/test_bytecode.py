"""Python's own import takes the bytecode that was put into a zip file, and the sources where there is none for it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from diskstream import DiskstreamError
from diskstream.spark.bytecode import add_bytecode, spark_archive

ROOT = Path(__file__).resolve().parent.parent.parent
# A module says where it was read from, and sees what it is to see; the last is of another Python.
SOURCES = {
    "package/__init__.py": "from package.inner import word\n",
    "package/inner.py": "word = 'seen'\n",
    "package/tests/test_it.py": "raise AssertionError\n",
    "package/older.py": "print 'no parentheses'\n",
    "package/data.txt": "text\n",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    made = tmp_path / "lib" / "package.zip"
    made.parent.mkdir()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in SOURCES.items():
            file.writestr(name, text)
    made.chmod(0o640)
    return made


def imported(archive: Path, **environment: str) -> list[str]:
    """What a Python that has nothing but the file says: a word of a module, and what that was read from."""
    done = subprocess.run(
        [sys.executable, "-c", "import package; print(package.word, package.inner.__file__)"],
        env={**os.environ, "PYTHONPATH": str(archive), **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.split()


def names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as file:
        return file.namelist()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_bytecode_is_taken_in_each_time_zone(archive: Path, zone: str) -> None:
    assert imported(archive, TZ=zone) == ["seen", f"{archive}/package/inner.py"]
    assert add_bytecode(archive) == 2
    assert imported(archive, TZ=zone) == ["seen", f"{archive}/package/inner.pyc"]


def test_sources_stay_where_they_were_and_tests_are_left_out(archive: Path) -> None:
    """A process that has looked the file up reads at the places that it remembers, from whatever is there then."""
    with zipfile.ZipFile(archive) as file:
        before = {each.filename: (each.header_offset, file.read(each)) for each in file.infolist()}
    assert add_bytecode(archive) == 2
    with zipfile.ZipFile(archive) as file:
        assert {name: (file.getinfo(name).header_offset, file.read(name)) for name in before} == before
        assert sorted(set(file.namelist()) - set(before)) == ["package/__init__.pyc", "package/inner.pyc"]
    assert archive.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_once_is_enough(archive: Path) -> None:
    assert add_bytecode(archive) == 2
    before = archive.read_bytes()
    assert add_bytecode(archive) == 0
    assert archive.read_bytes() == before


def test_a_module_that_came_later_is_compiled_too(archive: Path) -> None:
    add_bytecode(archive)
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("package/later.py", "")
    assert add_bytecode(archive) == 1
    assert "package/later.pyc" in names(archive)


def test_bytecode_of_another_python_is_passed_over_and_makes_way(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(archive, "a") as file:
        for name in ("package/__init__.pyc", "package/inner.pyc"):
            file.writestr(name, b"\x01\x02\r\n" + bytes(12) + b"another Python's")
    assert imported(archive) == ["seen", f"{archive}/package/inner.py"]
    assert add_bytecode(archive) == 2
    assert imported(archive) == ["seen", f"{archive}/package/inner.pyc"]
    assert len(names(archive)) == len(set(names(archive))) == len(SOURCES) + 2


def test_what_is_no_zip_file_is_told_and_stays(archive: Path) -> None:
    archive.write_bytes(b"half of a download")
    with pytest.raises(DiskstreamError, match="is no zip file"):
        add_bytecode(archive)
    assert archive.read_bytes() == b"half of a download"


def test_a_file_that_cannot_be_replaced_is_as_before(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_of: object) -> None:
        raise PermissionError(13, "Permission denied", str(archive))

    before = archive.read_bytes()
    monkeypatch.setattr(Path, "replace", denied)
    with pytest.raises(PermissionError):
        add_bytecode(archive)
    assert archive.read_bytes() == before
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_the_command_says_what_it_did(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "spark"
    (home / "python").mkdir(parents=True)
    archive.rename(archive.with_name("pyspark.zip"))
    archive.parent.rename(home / "python" / "lib")

    def said(home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "diskstream.spark.bytecode"],
            env={**os.environ, "SPARK_HOME": str(home)},
            cwd=ROOT,
            capture_output=True,
            check=False,
            text=True,
        )

    place = home / "python" / "lib" / "pyspark.zip"
    assert said(home).stdout == f"{place}: 2 modules were compiled\n"
    assert said(home).stdout == f"{place}: all modules were compiled before\n"
    none = said(tmp_path / "none")
    assert (none.returncode, none.stderr.count("\n")) == (1, 1)
    assert "starts no Python processes" in none.stderr


@pytest.mark.skipif(not (ROOT / ".venv/.stamps/spark-bytecode").exists(), reason="only make has done it")
def test_make_has_done_it() -> None:
    assert "pyspark/daemon.pyc" in names(spark_archive())
