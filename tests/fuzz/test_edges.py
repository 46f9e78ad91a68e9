"""Whatever bytes a Python edge is given, it reads them or refuses them in our own words."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diskstream.errors import ArgumentError
from tests.fuzz.all_edges import EDGES
from tests.fuzz.edges import Edge, tried
from tests.fuzz.mutations import mutated

# `re` reads some patterns otherwise one day, and says so already.
pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Sequence[bytes]]]:
    folder = tmp_path_factory.mktemp("edges")
    return folder, {edge.name: edge.seeds(folder) for edge in EDGES}


@pytest.mark.parametrize("edge", EDGES, ids=[edge.name for edge in EDGES])
def test_changed_bytes_are_read_or_refused(edge: Edge, seeds: tuple[Path, dict[str, Sequence[bytes]]]) -> None:
    folder, made = seeds
    assert made[edge.name]

    examples = 8 if "dissected" in edge.name or "salvaged" in edge.name else 30  # whole files take longer

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def given_to(chance: random.Random) -> None:
        tried(edge, mutated(made[edge.name], chance), folder)

    given_to()


@pytest.mark.parametrize("edge", EDGES, ids=[edge.name for edge in EDGES])
def test_what_its_own_writers_make_is_read(edge: Edge, seeds: tuple[Path, dict[str, Sequence[bytes]]]) -> None:
    folder, made = seeds
    outcomes = {tried(edge, data, folder) for data in made[edge.name]}
    # These edges try several readers on each seed, of which some refuse it; or seeds of the corpus may be cut ones.
    assert "read" in outcomes or edge.name in ("IDs", "times", "stubs") or "corpus" in edge.seeds.__qualname__


def _wrong(mistake: Callable[[bytes], object]) -> Edge:
    def read(data: bytes, _folder: Path) -> None:
        mistake(data)
        raise ArgumentError("refused")

    return Edge("planted", lambda _folder: (b'{"a": 1}', b"5-1"), read)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda data: data[9],
        lambda data: data.decode("ascii"),
        lambda data: {b"5-1": 1}[data],
        lambda data: int(data.partition(b"-")[0]),
        lambda data: None if data in (b'{"a": 1}', b"5-1") else data.missing,
    ],
    ids=["IndexError", "UnicodeDecodeError", "KeyError", "ValueError", "AttributeError"],
)
def test_a_planted_mistake_is_seen(mistake: Callable[[bytes], object], tmp_path: Path) -> None:
    edge, chance = _wrong(mistake), random.Random(1)
    with pytest.raises(AssertionError, match="planted"):
        for _ in range(200):
            tried(edge, mutated(edge.seeds(tmp_path), chance), tmp_path)


FOUND = [
    ("descriptions of stores", b'{"format_version": 1, "uuid": 5, "features": {"incompatible": []}}', "damaged"),
    ("manifests of archives", b'{"format_version": 1, "settings": {"columns": []}, "version": Infinity}', "damaged"),
    ("manifests of archives", b"[" * 100_000, "damaged"),
    ("manifests of backups", b'{"format": Infinity, "patterns": []}\n', "the manifest of a backup"),
    (
        "manifests of exports",
        b'{"diskstream_export": 1, "given": ' + b"[" * 100_000 + b"\n",
        "not what an export writes",
    ),
    ("plans of replays", b'{"format": Infinity, "asked": [], "where": []}', "its plan of this replay cannot be read"),
    ("manifests of staged rows", b'{"writer": "w", "version": Infinity, "given": false, "files": []}', "damaged"),
]


@pytest.mark.parametrize(("name", "data", "words"), FOUND, ids=[name for name, _, _ in FOUND])
def test_what_was_found_is_refused_in_our_words(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    """AttributeErrors, OverflowErrors and RecursionErrors came out: numbers for text, infinities, deep nesting."""
    edge = next(edge for edge in EDGES if edge.name == name)
    with pytest.raises(edge.errors, match=words):
        edge.read(data, tmp_path)


def test_a_record_of_a_catalogue_with_a_number_for_an_identity_is_none(tmp_path: Path) -> None:
    edge = next(edge for edge in EDGES if edge.name == "records of a catalogue")
    assert edge.signed is not None
    (seed,) = edge.seeds(tmp_path)
    changed = edge.signed(seed.replace(b'"6f1c7e0e-6d2a-4d62-9e47-0c9a2a0f6a11"', b"5"))
    assert changed != seed
    assert tried(edge, changed, tmp_path) == "read"  # as None: a record that says nothing
