"""Profiles: they count what is there, however it is split among tasks, and a page takes no harm from what it shows."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.cli.output import plain
from tests.spark.session import what_is_missing

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)

import numpy as np
import pyarrow as pa

from diskstream.spark.jobs import profile
from diskstream.spark.jobs.profile import Settings, merged
from diskstream.spark.jobs.profile_facts import facts_of
from diskstream.spark.jobs.profile_fields import FieldProfile
from diskstream.spark.jobs.profile_page import page, shown
from diskstream.spark.jobs.profile_sketches import Distinct, Frequent, Timeline
from diskstream.spark.jobs.profile_task import MAX_FIELDS, MAX_SHAPES, profile_partition
from diskstream.spark.jobs.scanning import partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE_MS = 1_790_000_000_000
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</style><style>*{display:none}",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "<!--",
    "]]>",
    "&lt;b&gt;",
]


def profiled(store: diskstream.Store, pattern: str = "", *, entries_per_task: int = 2_000_000) -> dict[str, Any]:
    """The facts of each stream, task after task in this process."""
    options = replace(Settings(str(store.path), pattern=pattern).reading(), max_entries_per_partition=entries_per_task)
    with partitions(options) as (names, planned):
        parts = [profile_partition(each) for each in planned]
    return {name.decode("latin-1"): facts_of(name, of) for name, of in merged(parts, names).items()}


@pytest.fixture
def orders(store: diskstream.Store) -> list[dict[str, str]]:
    """6,000 entries of a stream `orders`, one every second, but for an hour of silence in the middle."""
    chance = np.random.default_rng(5)
    rows: list[dict[str, str]] = []
    for at in range(6000):
        row = {"amount": f"{chance.integers(1, 9000) / 100}", "state": "new" if at % 4 else "paid", "number": str(at)}
        if at % 3 == 0:
            row["at"] = f"2026-11-21T10:{at % 60:02}:00Z"
        if at % 10 == 0:
            row["ok"] = "true"
        rows.append(row)
    times = [BASE_MS + at * 1000 + (3_600_000 if at >= 3000 else 0) for at in range(6000)]
    for at in range(0, 6000, 1000):
        store.stream("orders").add_many(rows[at : at + 1000], ids=[f"{ms}-0" for ms in times[at : at + 1000]])
    return rows


def test_it_counts_what_is_there(store: diskstream.Store, orders: list[dict[str, str]]) -> None:
    facts = profiled(store)["orders"]
    assert facts["entries"] == sum(facts["rates"]["entries"]) == 6000
    assert facts["size_bytes"] == sum(len(name) + len(value) for row in orders for name, value in row.items())
    assert (facts["first_ms"], facts["last_ms"]) == (BASE_MS, BASE_MS + 5_999_000 + 3_600_000)
    assert facts["gaps"][0] == {"ms": 3_601_000, "from_ms": BASE_MS + 2_999_000, "to_ms": BASE_MS + 6_600_000}
    assert len(facts["rates"]["entries"]) <= 240
    sizes = Counter(sum(len(name) + len(value) for name, value in row.items()).bit_length() for row in orders)
    assert {each["below"].bit_length() - 1: each["entries"] for each in facts["sizes"]} == sizes
    shapes = Counter(frozenset(row) for row in orders)
    assert {frozenset(each["fields"]): each["entries"] for each in facts["shapes"]} == shapes
    fields = {each["name"]: each for each in facts["fields"]}
    kinds = {name: each["type"] for name, each in fields.items()}
    assert kinds == {"amount": "float", "state": "text", "number": "int", "at": "timestamp", "ok": "bool"}
    amounts = [float(row["amount"]) for row in orders]
    numbers = fields["amount"]["numbers"]
    assert (numbers["min"], numbers["max"]) == (min(amounts), max(amounts))
    assert numbers["mean"] == pytest.approx(np.mean(amounts))
    assert numbers["median"] == pytest.approx(np.median(amounts), rel=0.01)
    assert fields["at"]["presence"] == pytest.approx(1 / 3)
    assert fields["state"]["top"][0] | {"error": 0} == {"value": "new", "count": 4500, "error": 0}
    assert (fields["state"]["distinct"], fields["state"]["distinct_is_exact"]) == (2, True)
    assert fields["number"]["distinct"] == pytest.approx(6000, rel=0.08)  # five standard errors
    assert fields["number"]["length"] == {"min": 1, "mean": np.mean([len(row["number"]) for row in orders]), "max": 4}


def test_it_does_not_matter_how_it_is_split(store: diskstream.Store, orders: list[dict[str, str]]) -> None:
    whole, split = profiled(store)["orders"], profiled(store, entries_per_task=500)["orders"]
    for facts in (whole, split):
        for field in facts["fields"]:
            field.pop("top" if field["name"] in ("amount", "number") else "none", None)  # approximate
            numbers = field.get("numbers", {})
            for name in ("mean", "p5", "median", "p95", "mean_over_time"):
                numbers.pop(name, None)  # sums of doubles depend on their order
    assert split == whole


def test_an_empty_stream_is_shown_as_such(store: diskstream.Store) -> None:
    store.stream("empty").add({"v": "1"})
    store.stream("empty").trim(maxlen=0)
    facts = profiled(store)
    assert facts == {"empty": {"stream": "empty", "entries": 0, "size_bytes": 0}}
    assert "<h1>" in page("store", list(facts.values()))
    assert "0</b> entries in <b>0</b>" in page("store", [])


def test_one_entry_is_enough(store: diskstream.Store) -> None:
    store.stream("one").add([("a", ""), ("a", "1")], id=f"{(1 << 64) - 1}-5")
    facts = profiled(store)["one"]
    assert (facts["fields"][0]["entries"], facts["fields"][0]["values"]) == (1, 2)
    assert facts["gaps"] == []
    assert "at one moment" in page("store", [facts])


# --- limits -----------------------------------------------------------------------------------------------------------


def test_what_input_can_grow_has_limits(store: diskstream.Store) -> None:
    """Each entry has a field name of its own."""
    store.stream("wild").add_many([{f"field-{at}": str(at)} for at in range(3000)])
    for entries_per_task in (2_000_000, 700):
        facts = profiled(store, entries_per_task=entries_per_task)["wild"]
        assert len(facts["fields"]) == MAX_FIELDS
        assert facts["other_fields_values"] == 3000 - MAX_FIELDS
        assert facts["other_shapes_entries"] + sum(each["entries"] for each in facts["shapes"]) == 3000
    assert MAX_SHAPES < 3000


def test_frequent_values_are_not_lost() -> None:
    """Zipf: counts are too low by the error at most, and the error is bounded, whatever the order."""
    values = np.random.default_rng(3).zipf(1.2, 200_000)
    true = Counter(str(value).encode() for value in values)
    parts = []
    for chunk in np.array_split(values, 13):
        part = Frequent()
        different, counts = np.unique(chunk.astype(str), return_counts=True)
        part.add(pa.array([value.encode() for value in different], pa.binary()), counts)
        parts.append(part)
    found = parts[0]
    for part in parts[1:]:
        found.merge(part)
    assert found.error <= 200_000 / 1024
    assert len(found.counts) <= 1024
    for value, count in true.most_common(20):
        assert count - found.error <= found.counts[value] <= count
    assert [value for value, _ in found.top(5)] == [value for value, _ in true.most_common(5)]


def test_different_values_are_estimated() -> None:
    found, other = Distinct(), Distinct()
    for at in range(0, 100_000, 10_000):
        texts = pa.array([str(number).encode() for number in range(at, at + 15_000)], pa.binary())
        (found if at % 20_000 else other).add(texts)
    found.merge(other)
    assert not found.is_exact
    assert found.estimate() == pytest.approx(105_000, rel=0.08)


def test_a_course_grows_its_buckets() -> None:
    times = np.sort(np.random.default_rng(1).integers(0, 1 << 50, 50_000, np.uint64))
    whole, split = Timeline(), Timeline()
    whole.add(times, np.ones(len(times)))
    for part in np.array_split(times, 7)[::-1]:
        each = Timeline()
        each.add(part, np.ones(len(part)))
        split.merge(each)
    assert len(whole.buckets) <= 512
    assert whole.counts.sum() == split.counts.sum() == 50_000
    _, length, counts, sums = split.columns(int(times[0]), int(times[-1]), 100)
    assert len(counts) <= 100
    expected = np.bincount(
        (times // np.uint64(length) - times[0] // np.uint64(length)).astype(int), minlength=len(counts)
    )
    assert counts.tolist() == expected.tolist() == sums.tolist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"1", b"-20"], "int"),
        ([b"1", b"2.5", b"1e3"], "float"),
        ([b"true", b"No"], "bool"),
        ([b"2026-11-21", b"2026-11-21T10:00:00.5+02:00"], "timestamp"),
        ([b"", b""], "empty"),
        ([b"a", b"1"], "text"),
        ([b"\xff\xfe", b"a\x00"], "binary"),
        ([b"\xc3\xa9", b"1 2"], "text"),
        ([b"9" * 400], "text"),
        ([b"1\n"], "text"),
    ],
)
def test_kinds_of_values(values: list[bytes], kind: str) -> None:
    field = FieldProfile()
    field.add(pa.array(values, pa.binary()), np.zeros(len(values), np.uint64), len(values))
    assert field.kind() == kind


# --- the page ---------------------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.content: list[str] = []
        self.comments = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.content.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def test_names_and_values_are_only_text(store: diskstream.Store) -> None:
    """What is shown of a hostile store has the elements and attributes of a harmless one."""
    for names in (HOSTILE, [f"harmless {at}" for at in range(len(HOSTILE))]):
        for at, name in enumerate(names):
            rows = [{each: other, "plain": name} for each, other in zip(names, reversed(names), strict=True)] * 5
            store.stream(f"{'hostile' if names is HOSTILE else 'tame'}-{at}-{name}").add_many(rows)
    store.stream(b"\xff\xfe").add({b"\xff": b"\xfe"})
    hostile = page("/store/<b>", list(profiled(store, "hostile*").values()))
    tame = page("/store", list(profiled(store, "tame*").values()))
    seen, expected = Seen(hostile), Seen(tame)
    assert set(seen.tags) == set(expected.tags)
    for tag in ("section", "h2", "h4", "code", "article", "svg", "table"):  # bars of sizes depend on those of names
        assert seen.tags[tag] == expected.tags[tag]
    assert seen.attributes == expected.attributes
    assert not any(name.startswith("on") for name in seen.attributes)
    assert seen.comments == 0
    assert not {"script", "img", "link", "iframe"} & set(seen.tags)
    assert "<script>alert(1)</script>" in seen.content
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", hostile)
    assert not re.search(r"(src|href)=(?!\"#)|url\(|@import|https?:", tame)
    json.dumps(profiled(store, "*")).encode()
    page("x", list(profiled(store).values())).encode()
    assert shown("\udcff\0\ud800\u202e\\") == "\\xff\\x00\\ud800\\u202e\\"


def test_bytes_that_are_not_utf8_are_in_json_as_of_other_verbs(store: diskstream.Store) -> None:
    """They were text with backslashes, of which nobody can tell whether the name has those."""
    store.stream(b"\xff\x00").add_many([{b"n\xfe": b"\xfd\\"}] * 2)
    (facts,) = profiled(store).values()
    assert facts["stream"] == plain(b"\xff\x00")
    assert [each["name"] for each in facts["fields"]] == [plain(b"n\xfe")]
    assert facts["shapes"][0]["fields"] == [plain(b"n\xfe")]
    assert facts["fields"][0]["top"][0]["value"] == plain(b"\xfd\\")
    told = page("/store", [facts])
    assert all(word in told for word in ("\\xff\\x00", "n\\xfe", "\\xfd\\"))


def test_the_job_writes_both_reports(
    spark: "SparkSession", store: diskstream.Store, orders: list[dict[str, str]], tmp_path: Path
) -> None:
    html, report = tmp_path / "profile.html", tmp_path / "profile.json"
    settings = Settings(str(store.path), html=html, json=report, quiet=True)
    summary = profile.run(spark, settings)
    assert summary.entries == 6000
    assert json.loads(report.read_text())["streams"] == summary.streams == [profiled(store)["orders"]]
    assert html.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["profile.html", "profile.json", "store"]
    assert not list((store.path / "leases").iterdir())


def test_a_dry_run_reads_nothing(store: diskstream.Store, orders: list[dict[str, str]]) -> None:
    result = CliRunner().invoke(main, ["spark", "profile", "-d", str(store.path), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "6,000 entries of 1 stream " in result.stdout
