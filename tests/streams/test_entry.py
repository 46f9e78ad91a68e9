"""`Entry`: one entry, frozen, unpacked as it is asked for."""

import copy
import pickle
from pathlib import Path

import pytest

import diskstream
from diskstream import Entry, EntryID, Store

PAIRS = [(b"name", b"first"), (b"n\x00\xff", b"\r\n\x00"), (b"name", b"last"), (b"", b"")]


@pytest.fixture
def entry(store: Store) -> Entry:
    stream = store.stream("x")
    stream.add(PAIRS, "5-3")
    found = stream.get("5-3")
    assert found is not None
    return found


def test_it_unpacks_as_id_and_fields(entry: Entry) -> None:
    entry_id, fields = entry
    assert entry_id == entry.id == EntryID(5, 3)
    assert fields == entry.fields
    assert len(entry) == 2
    assert list(entry) == [entry.id, entry.fields]


def test_fields_are_a_dictionary_with_the_last_of_a_repeated_name(entry: Entry) -> None:
    assert list(entry.fields.items()) == [(b"name", b"last"), (b"n\x00\xff", b"\r\n\x00"), (b"", b"")]


def test_pairs_are_all_that_was_added_in_order(entry: Entry) -> None:
    assert entry.pairs == PAIRS


def test_a_field_is_asked_for_by_bytes_or_text(entry: Entry) -> None:
    assert entry["name"] == entry[b"name"] == entry.get("name") == b"last"
    assert entry[b"n\x00\xff"] == b"\r\n\x00"
    assert entry[""] == b""
    assert "name" in entry
    assert b"n\x00\xff" in entry
    assert "other" not in entry


def test_a_missing_field_is_a_key_error_or_the_default(entry: Entry) -> None:
    with pytest.raises(KeyError, match="other"):
        entry["other"]
    assert entry.get("other") is None
    assert entry.get("other", 7) == 7


def test_its_size_is_that_of_all_names_and_values(entry: Entry) -> None:
    assert entry.size_bytes == sum(len(name) + len(value) for name, value in PAIRS)


def test_it_is_frozen(entry: Entry) -> None:
    for name in ("id", "fields", "pairs", "other"):
        with pytest.raises(AttributeError):
            setattr(entry, name, 5)
    with pytest.raises(TypeError):
        entry["name"] = b"5"  # type: ignore[index]  # refused: it is frozen
    with pytest.raises(TypeError):
        Entry()
    entry.fields.clear()
    entry.pairs.clear()
    assert entry.pairs == PAIRS


def test_it_is_equal_to_an_entry_with_the_same_id_and_pairs_wherever_that_lies(store: Store) -> None:
    def read(name: str) -> Entry:
        found = store.stream(name).get("5-3")
        assert found is not None
        return found

    for name, pairs, entry_id in [
        ("same", PAIRS, "5-3"),
        ("sealed", PAIRS, "5-3"),
        ("order", PAIRS[::-1], "5-3"),
        ("value", [*PAIRS[:3], (b"", b"x")], "5-3"),
        ("fewer", PAIRS[:3], "5-3"),
    ]:
        store.stream(name).add(pairs, entry_id)
    store.seal("sealed")
    assert read("same") == read("sealed")
    assert hash(read("same")) == hash(read("sealed"))
    assert len({read("same"), read("sealed"), read("order")}) == 2
    for other in ("order", "value", "fewer"):
        assert read("same") != read(other)
    store.stream("same").add(PAIRS, "5-4")
    assert read("same") != store.stream("same").get("5-4")
    assert read("same") != (EntryID(5, 3), dict(PAIRS))


def test_its_text_says_what_it_is(entry: Entry) -> None:
    assert repr(entry) == f"Entry('5-3', {entry.fields!r})"


def test_its_text_shows_bytes_that_are_no_text_as_bytes(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "data", decode_responses=True) as store:
        store.stream("s").add({"name": "Zürich", b"raw": b"\xff", b"\xfe": "x"}, "5-3")
        entry = store.stream("s").get("5-3")
        assert repr(entry) == "Entry('5-3', {'name': 'Zürich', 'raw': b'\\xff', b'\\xfe': 'x'})"
        assert entry is not None
        with pytest.raises(UnicodeDecodeError, match="0xff"):
            entry["raw"]


def test_it_survives_pickling_and_copying(entry: Entry) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(entry, protocol))
        assert (back.id, back.pairs, hash(back)) == (entry.id, entry.pairs, hash(entry))
        assert back == entry
    assert copy.copy(entry) == copy.deepcopy(entry) == entry


def test_it_outlives_its_stream_and_its_store(store: Store) -> None:
    stream = store.stream("x")
    for number in range(200):
        stream.add({"n": number, "pad": "." * 100}, (number + 1, 0))
    stream.seal()
    stream.add({"n": 200}, "201-0")
    kept = list(stream.range())
    store.delete("x")
    store.close()
    assert [int(entry["n"]) for entry in kept] == list(range(201))


def test_of_a_text_store_it_holds_text(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "text", decode_responses=True) as store:
        stream = store.stream("x")
        stream.add([("größe", "5 µm"), ("n", 1), ("n", 2)], "5-3")
        found = stream.get("5-3")
        assert found is not None
        assert found.pairs == [("größe", "5 µm"), ("n", "1"), ("n", "2")]
        assert found["größe"] == found["größe".encode()] == "5 µm"
        assert pickle.loads(pickle.dumps(found)).pairs == found.pairs
