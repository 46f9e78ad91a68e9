"""Files of JSON, what is known of keys, and the digest are what docs/format/ says: read from those pages alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import diskstream
from diskstream.backups import make_backup
from diskstream.checked_json import check_of
from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours
from tests.rot import world
from tests.slow_reader import FormatError, SlowStore
from tests.slow_reader.digest import digest
from tests.slow_reader.texts import canonical, checked_object, read_backup, read_dump, read_export, read_keys

pytest.importorskip("pyarrow")

ODD = b"a/\xff%\xc3\xa9"
Pairs = list[tuple[bytes, bytes]]
WORDS: list[Pairs] = [
    [(b"a", b"b")],
    [(b"a", b""), (b"a", b"1"), (b"", b"\xff" * 64)],
    [(bytes(range(65)), bytes(range(256)))],
    [(b"%d" % number, b"." * number) for number in range(70)],
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a store, backups of it, an export of it, and what a server keeps."""
    root = tmp_path_factory.mktemp("place")
    with world.fill_store(root / "store", (root / "cold").as_uri()) as store:
        world.archive_into(store)
        store.stream(ODD).add_many(WORDS, ids=[(1, 0), (2, 3), (2**63, 0), (2**64 - 1, 2**64 - 1)])
    world.serve_from(root / "store")
    world.back_up(root / "store", root / "backups")
    world.export_from(root / "store", root / "export")
    return root


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(some.characters(), max_size=9),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=9,
)


@given(facts=some.dictionaries(some.text(some.characters(), max_size=5), JSON, max_size=5))
def test_a_check_is_that_of_the_form_on_the_page(facts: dict[str, Any]) -> None:
    facts.pop("check", None)
    data = json.dumps({**facts, "check": check_of(facts)}).encode()
    assert checked_object(Path("f"), data) == facts
    assert json.loads(canonical(facts)) == facts


def test_a_digest_is_that_of_the_page(place: Path) -> None:
    slow = SlowStore(place / "store")
    with diskstream.open(place / "store", read_only=True) as store:
        for name in (ODD, b"x", b"spare", b"ruled", b"empty"):
            assert digest(slow.stream(name).entries()) == str(store.stream(name).digest()), name


def test_a_backup_says_what_is_in_it(place: Path) -> None:
    for folder in sorted(path for path in (place / "backups").iterdir() if path.is_dir()):
        header, streams, files = read_backup(folder)
        assert header["number"] == int(folder.name.rpartition("-")[2], 16)
        assert (header["streams"], header["files"]) == (len(streams), len(files))
        assert header["entries"] == sum(stream["entries"] for stream in streams)
        assert header["size_bytes"] == sum(file["size_bytes"] for file in files)
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert there == {file["path"] for file in files} | {"backup.jsonl"}
        slow = {path.parent: SlowStore(path.parent) for path in folder.rglob("store.json")}
        for stream in streams:
            kept = slow[(folder / stream["path"]).parent.parent]
            name = stream["name"].encode("utf-8", "surrogateescape")
            assert kept.streams()[name] == folder / stream["path"]
            if name == b"cold":
                continue  # its entries are elsewhere
            found = kept.stream(name)
            ids = [entry_id for entry_id, _ in found.entries()]
            assert stream["uuid"] == found.state.uuid.hex()
            assert (stream["entries"], stream["entries_added"]) == (len(ids), found.state.entries_added)
            assert stream["first_id"] == "{}-{}".format(*(ids[0] if ids else (0, 0)))
            assert stream["last_id"] == "{}-{}".format(*found.state.last_id)


def test_an_export_lists_its_parts(place: Path) -> None:
    request, parts, done = read_export(place / "export")
    assert done == {"complete": True, "entries": sum(part["entries"] for part in parts), "files": len(parts)}
    slow = SlowStore(place / "store")
    for span in request["spans"]:
        stream = slow.stream(span["stream"].encode())
        assert span["identity"] == stream.state.uuid.hex()
        rows = [
            json.loads(line)
            for part in parts
            if part["stream"] == span["stream"]
            for line in (place / "export" / part["file"]).read_text("ascii").splitlines()
        ]
        found = [(row["id"], row.get("pairs", [*map(list, row["fields"].items())])) for row in rows]
        assert found == [
            (f"{ms}-{seq}", [[word.decode("utf-8", "surrogateescape") for word in pair] for pair in pairs])
            for (ms, seq), pairs in stream.entries()
        ]


def test_a_checkpoint_vouches_for_what_is_there(place: Path) -> None:
    (path,) = (place / "store" / "archives").glob("*.json")
    facts = checked_object(path, path.read_bytes())
    stream = SlowStore(place / "store").stream(facts["stream"].encode("latin-1"))
    entries = list(stream.entries())
    assert facts["verified_to"] == "{}-{}".format(*entries[-1][0])
    assert (facts["verified_entries"], facts["verified_digest"]) == (len(entries), digest(entries))


def test_a_record_of_the_catalogue_is_whole(place: Path) -> None:
    records = list((place / "cold").glob("*/catalogue/*/*.json"))
    assert records
    for path in records:
        facts = checked_object(path, path.read_bytes())
        assert (place / "cold" / facts["path"]).stat().st_size == facts["size_bytes"]


def test_what_is_known_of_keys(place: Path) -> None:
    known, places = read_keys(SlowStore(place / "store" / "keys").stream(b"keys"))
    timed = SlowStore(place / "store").stream(b"timed")
    expires = 2 * world.LATER_MS
    assert places[:3] == [0, 1, 2]
    assert known == {
        (0, b"word"): {"kind": "string", "expires": expires, "stream": b"", "values": [b"held"]},
        (0, b"colours"): {"kind": "set", "expires": None, "stream": b"", "values": [b"red", b"green"]},
        (0, b"timed"): {"kind": "", "expires": expires, "stream": timed.state.uuid, "values": []},
    }


def test_databases_change_places(tmp_path: Path) -> None:
    with Keyspace(tmp_path, **{**world.OPTIONS, "clock": None}) as keyspace:
        ours = Ours(keyspace)
        for line in ("XADD a 1-1 n 1", "RPUSH list a b a", "SWAPDB 0 1", "XADD b 1-1 n 1", "SELECT 1", "DEL list"):
            ours.run(line)
    known, places = read_keys(SlowStore(tmp_path / "keys").stream(b"keys"))
    assert places[:3] == [1, 0, 2]
    assert known == {}
    assert list(SlowStore(tmp_path).streams()) == [b"a"]
    assert list(SlowStore(tmp_path / "db1").streams()) == [b"b"]


def test_what_dump_gives(tmp_path: Path) -> None:
    with Keyspace(tmp_path, **{**world.OPTIONS, "clock": None}) as keyspace:
        ours = Ours(keyspace)
        lines = (
            *("XADD s 1-1 \xff \xfe \xff 2", "XADD s 2-1 n 1", "XADD s 3-1 n 1", "XGROUP CREATE s g\xff 0"),
            *("XREADGROUP GROUP g\xff c COUNT 2 STREAMS s >", "XDEL s 3-1", "RPUSH list a b a"),
        )
        for line in lines:
            ours.run(line)
        dumped, listed = (read_dump(ours.run(f"DUMP {key}")) for key in ("s", "list"))
    assert listed == {"kind": "list", "values": ["a", "b", "a"]}
    ((name, last, read, consumers, pending),) = dumped.pop("groups")
    assert (name, last, read, [consumer for consumer, *_ in consumers]) == ("g\xff", [2, 1], 2, ["c"])
    assert [(at, who, deliveries) for at, who, _, deliveries in pending] == [([1, 1], 0, 1), ([2, 1], 0, 1)]
    assert dumped == {
        "kind": "stream",
        "last": [3, 1],
        "deleted": [3, 1],
        "added": 3,
        "windows": [100, 100],
        "entries": [[[1, 1], ["\xff", "\xfe", "\xff", "2"]], [[2, 1], ["n", "1"]]],
    }


def test_damage_is_seen(place: Path, tmp_path: Path) -> None:
    backup = min(path for path in (place / "backups").iterdir() if path.is_dir())
    shutil.copytree(backup, tmp_path / "backup")
    manifest = tmp_path / "backup" / "backup.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b'"number": 1', b'"number": 7'))
    with pytest.raises(FormatError):
        read_backup(tmp_path / "backup")


def test_an_odd_name_in_a_backup_and_an_export(place: Path, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream(ODD).add({"n": "1"}, (1, 1))
        made = make_backup(store.path, tmp_path / "backups")
    _, (stream,), _ = read_backup(made.path)
    assert stream["name"].encode("utf-8", "surrogateescape") == ODD
