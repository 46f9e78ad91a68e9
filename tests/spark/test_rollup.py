"""Rollups: the same numbers as pandas finds, windows and groups as they should be, and nothing twice."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.errors import ArgumentError
from tests.spark.session import what_is_missing

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from diskstream.spark.jobs import rollup
from diskstream.spark.jobs.chart import draw
from diskstream.spark.jobs.rollup import Settings
from diskstream.spark.jobs.rollup_output import add_windows, as_table
from diskstream.spark.jobs.rollup_stream import rollup_stream, source, windows, write_batch
from diskstream.spark.jobs.scanning import partitions
from diskstream.spark.jobs.sketch import EXACT_POINTS, RELATIVE_ERROR, Points, quantiles
from diskstream.spark.jobs.window_task import roll_partition
from diskstream.spark.jobs.windows import unite
from tests.spark.archives import no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]

BASE_MS = 1_790_000_000_000
KINDS = (None, b"50%", b"%41", "ü".encode(), b"\xff%", b"\xff%25", b"\xfe", b"%FE", b"")
SHOWN = (None, "50%", "%41", "ü", "%FF%25", "%FF%2525", "%FE", "%FE", "")  # text stays what it is


def rolled(settings: Settings, *, entries_per_task: int = 2_000_000) -> pa.Table:
    """What the job makes, task after task in this process."""
    options = replace(settings.check().reading(), max_entries_per_partition=entries_per_task)
    with partitions(options, without=settings.to_stream) as (_, planned):
        parts = [roll_partition(each, settings) for each in planned]
    return as_table(unite(parts, len(settings.fields)), settings)


def by_pandas(frame: pd.DataFrame, keys: list[str], column: str, wanted: tuple[float, ...] = ()) -> pd.DataFrame:
    grouped = frame.groupby(keys, dropna=False)
    found = grouped[column].agg(["count", "min", "max", "sum", "mean"])
    for each in wanted:
        found[f"p{each * 100:g}"] = grouped[column].quantile(each)
    return found.reset_index()


def assert_same(table: pa.Table, expected: pd.DataFrame, keys: list[str], column: str, rtol: float = 1e-9) -> None:
    order = ["window_start", *keys]
    found = table.to_pandas().sort_values(order).reset_index(drop=True)
    expected = expected.sort_values(order).reset_index(drop=True)
    assert len(found) == len(expected)
    for key in order:
        assert found[key].astype(object).where(found[key].notna(), None).tolist() == (
            expected[key].astype(object).where(expected[key].notna(), None).tolist()
        )
    for name in expected.columns.difference(order):
        np.testing.assert_allclose(
            found[f"{column}_{name}"].astype(float), expected[name].astype(float), rtol=rtol, atol=1e-9, err_msg=name
        )


@pytest.fixture
def readings(store: diskstream.Store) -> pd.DataFrame:
    """20,000 entries of a stream `sensors`; some have no sensor, no value, or one that is no number."""
    chance = np.random.default_rng(7)
    count = 20_000
    ms = BASE_MS + np.cumsum(chance.integers(0, 40, count))
    seq = pd.Series(ms).groupby(ms).cumcount()
    values = chance.normal(20, 30, count).round(3)
    kinds = chance.integers(0, 50, count)
    sensors = [[None, "a", "b", "50 %"][place] for place in chance.choice(4, count, p=[0.1, 0.3, 0.3, 0.3])]
    rows: list[dict[str, str]] = []
    for value, kind, sensor in zip(values, kinds, sensors, strict=True):
        row = {"other": "x"} | ({} if sensor is None else {"sensor": sensor})
        if kind:
            row["value"] = "broken" if kind == 1 else "nan" if kind == 2 else str(value)
        rows.append(row)
    stream = store.stream("sensors")
    for at in range(0, count, 5000):
        ids = [f"{time}-{number}" for time, number in zip(ms[at : at + 5000], seq[at : at + 5000], strict=True)]
        stream.add_many(rows[at : at + 5000], ids=ids)
    return pd.DataFrame({"ms": ms, "sensor": sensors, "value": np.where(kinds > 2, values, np.nan), "kind": kinds})


def with_windows(frame: pd.DataFrame, window_ms: int) -> pd.DataFrame:
    return frame.assign(window_start=pd.to_datetime(frame["ms"] // window_ms * window_ms, unit="ms", utc=True))


@pytest.mark.parametrize("entries_per_task", [2_000_000, 1500])
def test_it_is_what_pandas_finds(store: diskstream.Store, readings: pd.DataFrame, entries_per_task: int) -> None:
    """However windows are split among tasks."""
    settings = Settings(str(store.path), (b"sensors",), window_ms=2000, fields=("value",))
    expected = by_pandas(with_windows(readings, 2000), ["window_start"], "value", settings.quantiles)
    assert_same(rolled(settings, entries_per_task=entries_per_task), expected, [], "value")


def test_groups_have_one_of_those_without(store: diskstream.Store, readings: pd.DataFrame) -> None:
    settings = Settings(str(store.path), (b"sensors",), window_ms=5000, fields=("value",), by=("sensor", "nothing"))
    expected = by_pandas(with_windows(readings, 5000), ["window_start", "sensor"], "value", settings.quantiles)
    table = rolled(settings, entries_per_task=3000)
    assert table.column("nothing").null_count == table.num_rows
    assert table.column("sensor").null_count
    assert_same(table, expected, ["sensor"], "value")


def test_what_is_grouped_by_stays_as_it_is_but_for_bytes_that_are_no_text(store: diskstream.Store) -> None:
    rows = [{"kind": kind, "v": "1"} for kind in KINDS if kind is not None]
    store.stream("kinds").add_many(rows, ids=[f"{BASE_MS}-{at}" for at in range(len(rows))])
    table = rolled(Settings(str(store.path), (b"kinds",), window_ms=5000, fields=("v",), by=("kind",)))
    assert sorted(table.column("kind").to_pylist()) == sorted(SHOWN[1:])


def test_what_is_no_number_is_counted(
    store: diskstream.Store, readings: pd.DataFrame, spark: "SparkSession", tmp_path: Path
) -> None:
    """And the whole job, on Spark, writes what it says."""
    target = tmp_path / "windows.parquet"
    settings = Settings(str(store.path), (b"sensors",), window_ms=1000, fields=("value",), output=target, quiet=True)
    summary = rollup.run(spark, replace(settings, chart=tmp_path / "chart.png"))
    tally = summary.fields["value"]
    kinds = readings["kind"].value_counts()
    assert (tally.values, tally.missing, tally.unparseable) == (
        int((readings["kind"] > 2).sum()),
        kinds[0],
        kinds[1] + kinds[2],
    )
    written = pq.read_table(target)
    assert written.equals(rolled(settings))
    assert pq.ParquetFile(target).metadata.row_group(0).column(0).compression == "ZSTD"
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chart.png", "store", "windows.parquet"]
    assert not list((store.path / "leases").iterdir())
    assert spark.createDataFrame(written).count() == written.num_rows == summary.rows


def test_windows_begin_at_their_multiples(store: diskstream.Store) -> None:
    stream = store.stream("edges")
    for ms, value in ((0, 1), (999, 2), (1000, 3), (1999, 4), (2000, 5)):
        stream.add({"v": str(value)}, id=f"{ms}-1")
    table = rolled(Settings(str(store.path), (b"edges",), window_ms=1000, fields=("v",)))
    assert table.column("v_count").to_pylist() == [2, 2, 1]
    assert table.column("v_sum").to_pylist() == [3, 7, 5]
    assert [at.timestamp() for at in table.column("window_start").to_pylist()] == [0, 1, 2]
    assert [at.timestamp() for at in table.column("window_end").to_pylist()] == [1, 2, 3]


def test_a_field_may_tell_the_time(store: diskstream.Store) -> None:
    """In any order, before 1970 too; an entry without a time is in no window."""
    times = ["2026-01-01T00:00:59Z", "2026-01-01 00:01:00", "1767225601000", "1969-12-31T23:59:59.5Z", "soon", None]
    rows = [{"v": str(at)} | ({} if time is None else {"at": time}) for at, time in enumerate(times)]
    store.stream("timed").add_many(rows)
    settings = Settings(str(store.path), (b"timed",), window_ms=60_000, fields=("v",), time_field="at")
    with partitions(settings.reading()) as (_, planned):
        rows_found = unite([roll_partition(each, settings) for each in planned], 1)
    table = as_table(rows_found, settings)
    assert rows_found.untimed == 2
    assert table.column("v_sum").to_pylist() == [3, 0 + 2, 1]
    assert table.column("window_start").to_pylist()[0].timestamp() == -60


def test_ids_beyond_all_calendars_are_in_no_window(store: diskstream.Store) -> None:
    store.stream("far").add({"v": "1"}, id="5-0")
    store.stream("far").add({"v": "2"}, id=f"{(1 << 64) - 1}-0")
    settings = Settings(str(store.path), (b"far",), window_ms=1, fields=("v",))
    assert rolled(settings).column("v_sum").to_pylist() == [1]


@pytest.mark.parametrize("time_field", ["", "at"])
def test_a_window_that_no_timestamp_holds_to_its_end_is_none(store: diskstream.Store, time_field: str) -> None:
    last_ms = ((1 << 63) - 1) // 1000
    whole = last_ms // 1000 * 1000  # from there on a second is not whole any more
    times = [5, whole - 1, whole, last_ms, -last_ms - 1] if time_field else [5, whole - 1, whole, last_ms]
    ids = [f"{at}-0" for at in range(1, 6)] if time_field else [f"{at}-0" for at in times]
    rows = [{"v": str(at), "at": str(time)} for at, time in enumerate(times)]
    stream = store.stream("far")
    for row, entry_id in zip(rows, ids, strict=False):
        stream.add(row, id=entry_id)
    if time_field:
        stream.add({"v": "9"}, id="6-0")  # and one without a time
    settings = Settings(str(store.path), (b"far",), window_ms=1000, fields=("v",), time_field=time_field)
    with partitions(settings.reading()) as (_, planned):
        found = unite([roll_partition(each, settings) for each in planned], 1)
    table = as_table(found, settings)
    assert table.column("v_sum").to_pylist() == [0, 1]
    starts, ends = (table.column(f"window_{edge}").cast(pa.int64()).to_pylist() for edge in ("start", "end"))
    assert [starts, ends] == [[0, (whole - 1000) * 1000], [1_000_000, whole * 1000]]
    assert found.untimed == (4 if time_field else 2)


@pytest.mark.parametrize("times", [(1, 253_370_764_740_000), (BASE_MS, BASE_MS * 1000), (BASE_MS * 1000,)])
def test_what_no_calendar_has_is_in_all_but_the_chart(
    no_spark: Any, store: diskstream.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: tuple[int, ...]
) -> None:
    """IDs in microseconds, as an example: the picture says how many rows it leaves out."""
    stream = store.stream("far")
    stream.add_many([{"v": "1"}] * len(times), ids=[f"{ms}-0" for ms in times])
    said, original = [], Figure.text

    def noted(*given: Any, **more: Any) -> Any:
        said.append(given[3])
        return original(*given, **more)

    monkeypatch.setattr(Figure, "text", noted)
    output, chart = tmp_path / "windows.parquet", tmp_path / "chart.png"
    settings = Settings(str(store.path), (b"far",), fields=("v",), output=output, chart=chart)
    summary = rollup.run(no_spark, settings)
    assert pq.read_table(output).num_rows == summary.rows == len(times)
    assert chart.read_bytes().startswith(b"\x89PNG")
    left_out = sum(ms >= BASE_MS * 1000 for ms in times)
    assert any(f"{left_out} row{'s' * (left_out > 1)} outside the years" in each for each in said) is (left_out > 0)


def test_nothing_comes_of_nothing(store: diskstream.Store, tmp_path: Path) -> None:
    store.stream("empty").add({"v": "1"})
    store.stream("empty").trim(maxlen=0)
    settings = Settings(str(store.path), (b"empty",), fields=("v",))
    table = rolled(settings)
    assert table.num_rows == 0
    assert table.schema == rolled(replace(settings, pattern="no*", streams=())).schema
    draw(table, settings, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size


# --- quantiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", ["lognormal", "normal", "tiny", "whole range"])
def test_quantiles_of_many_values_are_within_their_bound(spread: str) -> None:
    chance = np.random.default_rng(11)
    values = {
        "lognormal": lambda: chance.lognormal(0, 3, 40_000),
        "normal": lambda: chance.normal(1000, 10, 40_000),
        "tiny": lambda: -chance.exponential(1e-200, 40_000),
        "whole range": lambda: chance.choice([-1, 1], 40_000) * 10 ** chance.uniform(-320, 308, 40_000),
    }[spread]()
    parts = [Points.of(np.zeros(len(part), np.int64), part).folded() for part in np.array_split(values, 17)]
    while len(parts) > 1:  # merged as it comes
        parts = [*parts[2:], Points.joined(parts[:2]).folded()]
    wanted = tuple(np.linspace(0, 1, 201))
    assert len(parts[0].values) < 40_000
    found = [float(each[0]) for each in quantiles(parts[0], 1, wanted)]
    exact = np.quantile(values, wanted)
    ordered = np.sort(values)
    for quantile, one, other in zip(wanted, found, exact, strict=True):
        low = int(np.floor(quantile * (len(values) - 1)))
        greater = max(abs(ordered[low]), abs(ordered[min(low + 1, len(values) - 1)]))
        same_sign = np.sign(ordered[low]) == np.sign(ordered[min(low + 1, len(values) - 1)])
        bound = RELATIVE_ERROR * (abs(other) if same_sign else greater)
        assert abs(one - other) <= bound * (1 + 1e-6) + 5e-324


def test_quantiles_of_few_values_are_exact() -> None:
    chance = np.random.default_rng(13)
    values = chance.normal(0, 1, EXACT_POINTS)
    points = Points.of(np.full(EXACT_POINTS, 3, np.int64), values).folded()
    for each in (0, 0.01, 0.5, 0.951, 1):
        found = quantiles(points, 5, (each,))[0]
        assert found[3] == pytest.approx(np.quantile(values, each), rel=1e-12)
        assert np.isnan(found[[0, 1, 2, 4]]).all()


# --- into a stream ----------------------------------------------------------------------------------------------------


def test_a_second_run_adds_nothing(store: diskstream.Store, readings: pd.DataFrame) -> None:
    settings = Settings(
        str(store.path), pattern="*", window_ms=10_000, fields=("value",), by=("sensor",), to_stream=b"rollup"
    )
    table = rolled(settings)
    end_ms = int(readings["ms"].max())
    added, skipped, held_back, cut = add_windows(table, settings, end_ms)
    assert added
    assert (skipped, held_back, cut) == (0, 4, 0)  # the last window may grow
    stream = store.stream("rollup")
    assert len(stream) == added
    again = rolled(settings)  # the pattern fits the new stream too, which is not read
    assert again.equals(table)
    assert add_windows(again, settings, end_ms) == (0, added, held_back, 0)
    assert add_windows(again, settings, end_ms + 10_000) == (held_back, added, 0, 0)
    assert len(stream) == table.num_rows
    entry, row = next(iter(stream)), table.slice(0, 1).to_pylist()[0]
    assert entry.id == diskstream.EntryID(int(row["window_start"].timestamp() * 1000), 0)
    assert b"sensor" not in entry.fields
    assert float(entry.fields[b"value_p95"]) == row["value_p95"]
    assert int(entry.fields[b"value_count"]) == row["value_count"]


def test_settings_that_make_no_sense_are_refused(store: diskstream.Store) -> None:
    good = Settings(str(store.path), fields=("v",))
    wrong: list[dict[str, Any]] = [
        {"fields": ()},
        {"window_ms": 0},
        {"by": ("v",)},
        {"by": ("stream",)},
        {"quantiles": (1.5,)},
        {"streams": (b"a",), "pattern": "*"},
        {"streams": (b"a",), "to_stream": b"a"},
        {"fields": ("v", "v")},
    ]
    for each in wrong:
        with pytest.raises(ArgumentError):
            replace(good, **each).check()


def test_too_many_windows_are_an_error(store: diskstream.Store, readings: pd.DataFrame) -> None:
    settings = Settings(str(store.path), (b"sensors",), window_ms=1, fields=("value",))
    with partitions(settings.reading()) as (_, planned):
        parts = [roll_partition(each, settings) for each in planned]
    with pytest.raises(ArgumentError, match="longer window"):
        unite(parts, 1, limit=100)


def test_a_dry_run_needs_no_spark(store: diskstream.Store, readings: pd.DataFrame) -> None:
    command = ["spark", "rollup", "sensors", "-d", str(store.path), "-f", "value", "--dry-run", "--to-stream", "r"]
    result = CliRunner().invoke(main, [*command, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["entries"] == 20_000
    assert not store.exists("r")
    assert not (store.path / "leases").exists() or not list((store.path / "leases").iterdir())
    assert CliRunner().invoke(main, [*command, "--window", "soon"]).exit_code == 2


# --- real measurements ------------------------------------------------------------------------------------------------


def test_real_measurements_are_what_pandas_finds(
    spark: "SparkSession", shared_dir: Path, store: diskstream.Store, tmp_path: Path
) -> None:
    with zipfile.ZipFile(shared_dir / "data" / "nab.zip") as packed:
        packed.extractall(tmp_path / "nab")
    frames = []
    for file in sorted((tmp_path / "nab").rglob("*.csv")):
        frame = pd.read_csv(file).assign(stream=file.stem).sort_values("timestamp", kind="stable")
        frame["ms"] = pd.to_datetime(frame["timestamp"], utc=True).astype("int64") // 1_000_000
        numbers = frame.groupby("ms").cumcount()
        ids = [f"{ms}-{seq}" for ms, seq in zip(frame["ms"], numbers, strict=True)]
        pairs = zip(frame["timestamp"], frame["value"], strict=True)
        rows = [{"timestamp": time, "value": repr(value)} for time, value in pairs]
        store.stream(file.stem).add_many(rows, ids=ids)
        frames.append(frame)
    everything = pd.concat(frames)
    settings = Settings(str(store.path), window_ms=3_600_000, fields=("value",))
    expected = by_pandas(with_windows(everything, 3_600_000), ["window_start", "stream"], "value", settings.quantiles)
    table, _ = rollup.roll_up(spark, settings)
    assert table is not None
    assert_same(table, expected, ["stream"], "value")  # an hour has few values: all is exact
    split = rolled(replace(settings, time_field="timestamp"), entries_per_task=20_000)
    assert_same(split, expected, ["stream"], "value")
    weeks = replace(settings, window_ms=7 * 86_400_000)
    expected = by_pandas(
        with_windows(everything, weeks.window_ms), ["window_start", "stream"], "value", weeks.quantiles
    )
    assert_same(rolled(weeks), expected, ["stream"], "value", rtol=RELATIVE_ERROR)


# --- streaming --------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Three files, a minute each, with a reading every second; the last one begins two minutes later."""
    folder = tmp_path / "measured"
    folder.mkdir()
    for at, begin in enumerate((0, 60, 300)):
        micros = [(1_790_000_040 + begin + second) * 1_000_000 for second in range(60)]
        columns = {
            "stream": pa.array(["s"] * 60),
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "v": pa.array([float(begin + second) for second in range(60)]),
        }
        path = folder / f"{at}.parquet"
        pq.write_table(pa.table(columns), path)
        # Spark takes files in the order of their times of change, which two files written at once may share.
        os.utime(path, (1_790_000_000 + at, 1_790_000_000 + at))
    return folder


def test_a_stream_is_rolled_up_as_it_comes(spark: "SparkSession", measured: Path, tmp_path: Path) -> None:
    schema = "stream string, ts timestamp, v double"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(measured))
    settings = Settings("", (b"s",), window_ms=60_000, fields=("v",))
    output = tmp_path / "windows"
    query = rollup_stream(spark, settings, output, checkpoint=tmp_path / "checkpoint", frame=frame)
    assert query.awaitTermination(100)
    assert (output / "_query").read_text() == query.id
    found = pa.concat_tables(pq.read_table(each) for each in sorted(output.glob("batch=*/windows.parquet")))
    assert found.column_names == as_table(unite([], 1), settings).column_names
    complete = found.sort_by("window_start").to_pylist()
    assert [row["v_sum"] for row in complete[:2]] == [sum(range(60)), sum(range(60, 120))]
    assert len(complete) == 2  # the third may still grow
    assert complete[0]["v_p50"] == pytest.approx(29.5, abs=0.51)
    assert not list(output.glob(".*"))

    before = sorted(output.iterdir())
    batch = spark.createDataFrame(pq.read_table(before[-1] / "windows.parquet"))
    (output / ".batch=99.dead.tmp").mkdir()  # of a driver that was killed
    assert not write_batch(batch.limit(0), 98, output, query=query.id)
    number = int(before[-1].name.partition("=")[2])
    assert not write_batch(batch, number, output, query=query.id)  # a batch that comes again
    assert sorted(output.iterdir()) == before


def test_both_jobs_find_the_same(spark: "SparkSession", store: diskstream.Store, readings: pd.DataFrame) -> None:
    """Spark's functions over the source, here as a batch, and the native scan with numpy."""
    from diskstream.spark import register

    register(spark)
    settings = Settings(str(store.path), (b"sensors",), window_ms=60_000, fields=("value",), by=("sensor",))
    found = windows(source(spark.read, settings), settings).toArrow().to_pandas()
    expected = rolled(settings).to_pandas()
    assert list(found.columns) == list(expected.columns)
    order = ["window_start", "sensor"]
    found, expected = (each.sort_values(order).reset_index(drop=True) for each in (found, expected))
    texts = [None if value is None else value.decode() for value in found["sensor"]]
    assert pd.Series(texts).fillna("").tolist() == expected["sensor"].fillna("").tolist()
    for name in ("entries", "value_count", "value_min", "value_max", "value_sum", "value_mean"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9)


def test_a_live_stream_is_rolled_up(spark: "SparkSession", store: diskstream.Store, tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource

    from diskstream.spark import DiskstreamSource, register

    methods = ("streamReader", "simpleStreamReader")
    if all(getattr(DiskstreamSource, name) is getattr(DataSource, name) for name in methods):
        pytest.skip("needs the streaming reader of the source, which is not there yet")
    register(spark)
    rows = [{"v": str(at), "kind": "x"} for at in range(180)]
    store.stream("live").add_many(rows, ids=[f"{BASE_MS // 60_000 * 60_000 + at * 1000}-0" for at in range(180)])
    settings = Settings(str(store.path), (b"live",), window_ms=60_000, fields=("v",), by=("kind",))
    query = rollup_stream(spark, settings, tmp_path / "windows", checkpoint=tmp_path / "checkpoint")
    assert query.awaitTermination(100)
    tables = [pq.read_table(each) for each in sorted((tmp_path / "windows").glob("batch=*/windows.parquet"))]
    found = pa.concat_tables(tables).sort_by("window_start").to_pylist()
    assert [(row["kind"], row["v_count"], row["v_min"]) for row in found][:2] == [("x", 60, 0.0), ("x", 60, 60.0)]


def test_groups_of_bytes_that_are_no_text_stay_apart(
    spark: "SparkSession", store: diskstream.Store, tmp_path: Path
) -> None:
    """As in the batch job, and shown as there."""
    from diskstream.spark import register

    register(spark)
    rows = [{"v": str(at)} | ({} if kind is None else {"kind": kind}) for at, kind in enumerate(KINDS)]
    stream = store.stream("kinds")
    stream.add_many(rows, ids=[f"{BASE_MS}-{at}" for at in range(len(rows))])
    stream.add({"v": "0"}, id=f"{BASE_MS + 1_000_000}-0")  # so that the window before is complete
    settings = Settings(str(store.path), (b"kinds",), window_ms=60_000, fields=("v",), by=("kind",))
    output = tmp_path / "windows"
    assert rollup_stream(spark, settings, output, checkpoint=tmp_path / "checkpoint").awaitTermination(100)
    found = pa.concat_tables(pq.read_table(each) for each in sorted(output.glob("batch=*/windows.parquet")))
    assert found.schema.field("kind").type == pa.string()
    assert sorted(zip(found["v_min"].to_pylist(), found["kind"].to_pylist(), strict=True)) == [
        (float(at), kind) for at, kind in enumerate(SHOWN)
    ]


def test_a_field_may_be_called_anything(spark: "SparkSession", store: diskstream.Store, tmp_path: Path) -> None:
    """Also as what Spark or a rollup calls its columns, and as another field but for its case."""
    from diskstream.spark import register

    register(spark)
    by = ("window", "ts", "_time", "time", "by0", "a.b`c", "Window", "field:x")
    row = {"v": "1", "V": "2", "at0": "3", "field0": "4"} | {name: f"<{name}>" for name in by}
    store.stream("odd").add(row, id=f"{BASE_MS}-0")
    settings = Settings(str(store.path), (b"odd",), fields=("v", "V", "at0", "field0"), by=by, quantiles=())
    expected = rolled(settings)
    store.stream("odd").add({"v": "0"}, id=f"{BASE_MS + 1_000_000}-0")  # so that the window before is complete
    output = tmp_path / "windows"
    assert rollup_stream(spark, settings, output, checkpoint=tmp_path / "checkpoint").awaitTermination(100)
    found = pa.concat_tables(pq.read_table(each) for each in sorted(output.glob("batch=*/windows.parquet")))
    assert found.column_names == expected.column_names
    assert found.to_pylist() == expected.to_pylist()
    assert [found[name][0].as_py() for name in by] == [row[name] for name in by]


def test_a_frame_that_lacks_a_column_is_refused(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([], "stream string, TS timestamp, v double, `field:v` double")
    assert windows(frame, Settings("", fields=("v",))).columns[-1] == "v_p99"
    with pytest.raises(ArgumentError, match="wants one column w in its frame, which has stream, TS, v, field:v"):
        windows(frame, Settings("", fields=("w",)))
