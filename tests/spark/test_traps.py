"""The traps of Spark's Python sources, numbered as in the reference: that each has its tests, and those that no other
file is about."""

import ast
import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from diskstream.cli import main
from tests.spark.session import ROOT
from tests.streams.layers import layered, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from diskstream.spark.options import ReadOptions
from diskstream.spark.schemas import plan
from diskstream.spark.source import DiskstreamSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_trap_of_the_reference_has_a_test(shared_dir: Path) -> None:
    reference = (shared_dir / "reference" / "spark.md").read_text(encoding="utf-8")
    traps = {int(number) for number in re.findall(r"^(\d+)\. ", reference, re.MULTILINE)}
    tests = [
        (node.name, ast.get_docstring(node) or "")
        for path in (ROOT / "tests" / "spark").glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    told = {int(number) for _, words in tests for number in re.findall(r"Trap (\d+):", words)}
    assert len(traps) > 10
    assert told == traps


def test_a_schema_is_the_only_projection(spark: "SparkSession", tmp_path: Path) -> None:
    """Trap 2: Spark takes no column, limit or count further than the source, and knows no continuous mode of it.

    So what is not to be read is left out of the schema, and results are right without any help of the source's.
    """
    from diskstream.spark import register

    register(spark)
    with small_store(tmp_path / "s") as store:
        made = layered(store)
        path = str(store.path)
        everything: Any = spark.read.format("diskstream").load(path)
        chosen: Any = spark.read.format("diskstream").schema("id_ms long").load(path)
        (wide,) = re.findall(r"BatchScan diskstream\[.*?\]", _plan(everything.select("id_ms").limit(3)))
        (narrow,) = re.findall(r"BatchScan diskstream\[.*?\]", _plan(chosen))
        assert (wide.count("#"), narrow.count("#")) == (5, 1)
        wanted = [entry_id.ms for entry_id, _ in made.live]
        assert [row.id_ms for row in everything.select("id_ms").collect()] == wanted
        assert [row.id_ms for row in chosen.limit(3).collect()] == wanted[:3]
        assert everything.selectExpr("count(1)").first()[0] == len(wanted)
        stream = spark.readStream.format("diskstream").load(path).writeStream.format("noop")
        with pytest.raises(Exception, match="does not support continuous processing"):
            stream.option("checkpointLocation", str(tmp_path / "c")).trigger(continuous="1 second").start()


def _plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_fields_of_the_schema_are_decoded() -> None:
    """Trap 2: the projection reaches the native scan."""
    from pyspark.sql.types import StructType

    columns = plan(StructType().add("id", "string").add("n", "integer"), ReadOptions(path="x")).columns
    assert [name for name, _ in columns] == [b"n"]


# Spark's own sinks to files; overwriting them by partition; and what hands filters to a source (trap 1).
SINKS = {"insertInto", "overwritePartitions", "parquet", "saveAsTable", "text", "toTable", "csv", "json", "orc"}
FORBIDDEN = {"pushFilters", "transformWithState", "transformWithStateInPandas", "applyInPandasWithState"}


def test_no_module_writes_by_the_sinks_of_spark() -> None:
    """Trap 11: a kill leaves orphans behind there, and an overwrite deletes before it renames. Tasks write themselves.

    What is written instead is killed at each of its steps in `test_killed_jobs` and `test_archive`.
    """
    assert list(_attributes(SINKS, of={"write", "writeStream", "writer"})) == []
    sources = "".join(path.read_text(encoding="utf-8") for path in _modules())
    assert "partitionOverwriteMode" not in sources


def _modules() -> list[Path]:
    return [*(ROOT / "diskstream" / "spark").rglob("*.py"), *(ROOT / "diskstream" / "cli" / "spark").rglob("*.py")]


def _attributes(names: set[str], of: set[str] | None = None) -> Any:
    """Where one of these is asked of something; with `of`, of what one of those has given."""
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in names:
                chain = {each.attr for each in ast.walk(node.value) if isinstance(each, ast.Attribute)}
                chain |= {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
                if of is None or chain & of:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"


@pytest.mark.parametrize("version", ["1.5.3", "2.1.4", "3.0.0"])
def test_a_pandas_that_spark_does_not_take_is_told_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Trap 13: `mapInArrow`, by which jobs run, wants pandas from 2.2 on, and before 3."""
    really = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == "pandas" else really(name))
    result = CliRunner().invoke(main, ["spark", "profile", "-d", str(tmp_path)])
    assert result.exit_code == 1
    error, hint = result.stderr.splitlines()
    assert error == f"error: jobs on Spark need pandas 2.2 or later, and before 3, not {version}"
    assert hint == "hint: pip install 'pandas>=2.2,<3'"


def test_the_extra_installs_what_spark_wants_and_nothing_asks_for_more() -> None:
    """Trap 13: states of `transformWithState` would want protobuf, which the extra does not bring."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert "pandas>=2.2,<3" in extra["spark"]
    assert list(_attributes(FORBIDDEN)) == []
    assert not FORBIDDEN & set(dir(DiskstreamSource))
