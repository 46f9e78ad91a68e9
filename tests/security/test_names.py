"""Names of streams: whatever bytes they have, their directory is below ``streams`` and is nobody else's."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

import diskstream
from diskstream.cli import main
from diskstream.engine import names

HOSTILE = (
    b".",
    b"..",
    b"../..",
    b"../../etc/passwd",
    b"/etc/passwd",
    b"a/../../b",
    b"\0",
    b"a\0b",
    b"a\n\r\x1b[2J",
    b"\xff\xfe",
    b"\xc0\xaf",
    b"%2e%2e",
    b"%2f",
    b"~",
    b"a~" + b"0" * 64,
    b".new-0",
    b".deleted-0",
    b"CON",
    b"nul.",
    b"name",
    b"ctl",
    "\uff21".encode(),
    "\u0130".encode(),
    b"x" * 4096,
    b"\xff" * 4096,
    b"../" * 1365,
)


@given(st.binary(min_size=1, max_size=300))
@example(b"..")
@example(b"%")
@example(b"~" * 200)
def test_a_directory_is_one_plain_component(name: bytes) -> None:
    found = names.encode_name(name)
    assert 0 < len(found) <= 255
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-%~")
    assert not found.startswith(".")


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=2, max_size=6, unique=True))
@example([b"a", b"A"])
@example([b"%41", b"A"])
@example([b"x" * 300, b"X" * 300, b"x" * 299])
def test_no_two_names_have_one_directory_however_the_file_system_folds_case(given_names: list[bytes]) -> None:
    found = {names.encode_name(name).casefold() for name in given_names}
    assert len(found) == len(given_names)


def test_hostile_names_are_names_like_others(tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    with diskstream.open(tmp_path / "store") as store:
        for name in HOSTILE:
            store.stream(name).add({"is": name})
        for name in HOSTILE:
            assert [entry[b"is"] for entry in store.stream(name)] == [name]
        assert set(store.streams()) == set(HOSTILE)
        store.rename(b"..", b"../../up")
        assert store.delete(b"../../up")
        assert store.delete(b"/etc/passwd")
    assert {path.name for path in tmp_path.iterdir()} - before == {"store"}
    assert {path.parent for path in (tmp_path / "store" / "streams").iterdir()} == {tmp_path / "store" / "streams"}


def test_a_directory_that_claims_a_long_name_which_is_not_its_own_is_no_stream(tmp_path: Path) -> None:
    """The file `name` is believed where the directory's digest agrees, and read no further than names go."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream(b"x" * 300).add({"n": 1})
    folder = next((tmp_path / "store" / "streams").iterdir())
    (folder / "name").write_bytes(b"../../etc".hex().encode() + b"\n")
    assert names.decode_directory(folder) is None
    with (folder / "name").open("wb") as file:
        os.ftruncate(file.fileno(), 1 << 40)  # a terabyte of zeros, in no room
    assert names.decode_directory(folder) is None


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_export_writes_where_it_was_told_whatever_streams_are_called(tmp_path: Path, kind: str) -> None:
    from diskstream.exporting import ExportRequest, export_directory

    with diskstream.open(tmp_path / "store") as store:
        wanted = (b"../../up", b"a\0b", b"/etc/passwd")
        for name in wanted:
            store.stream(name).add({"f": "1"})
        export_directory(store, ExportRequest(wanted, kind), tmp_path / "out", rows_per_file=1)
    assert {path.name for path in tmp_path.iterdir()} == {"store", "out"}
    assert len(list((tmp_path / "out").glob(f"part-*.{kind}"))) == 3


@pytest.mark.parametrize(
    "evil", [b"\x1b]0;pwned\x07", b"\x1b[2J\x1b[H", b"a\rb", b"[/]", b"[link=http://x]y[/link]", b"[red]"]
)
def test_a_name_or_value_does_nothing_to_a_terminal(tmp_path: Path, evil: bytes) -> None:
    """Listed, read, shown in a table and named in an error: what does not print is escaped, and nothing is markup."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream(evil).add({evil: evil})
        store.stream(evil).create_group(evil, "0")
        store.stream(evil).group(evil).consumer(evil).read(count=1)
    name = evil.decode()
    for words in (
        *(["ls"], ["range", name], ["info", name], ["group", "ls", name], ["group", "info", name, name]),
        *(["consumer", "ls", name, name], ["group", "pending", name, name], ["verify"], ["inspect"], ["count", name]),
        *(["range", f"no{name}"], ["retention", "show"], ["cold", "ls"], ["export", name]),
        *(
            ["replay", name, "--speed", "max", "--to", f"stream:{name}2@{tmp_path / 'store'}"],
            ["rm", name, "--dry-run"],
        ),
    ):
        done = CliRunner().invoke(main, [*words, "--dir", str(tmp_path / "store")], color=True)  # as on a terminal
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        assert not set(done.output) & set("\x1b\x07\r"), words
        if words == ["ls"]:
            assert name.replace("\x1b", "\\x1b").replace("\x07", "\\x07").replace("\r", "\\r") in done.output


def test_a_file_whose_row_is_refused_does_nothing_to_a_terminal_by_its_name(tmp_path: Path) -> None:
    """Files that a pattern means were named by somebody else, and are named in messages as they are."""
    file = tmp_path / "a\x1b]0;pwned\x07\rb.csv"
    file.write_text("a,b\n1\n1,2\n")
    words = ["import", str(file), "--stream", "s", "--dir", str(tmp_path / "store")]
    for status, more in ((1, []), (0, ["--on-error", "skip"])):
        done = CliRunner().invoke(main, [*words, *more], color=True)
        assert (done.exit_code, set(done.output) & set("\x1b\x07\r")) == (status, set())
        assert r"a\x1b]0;pwned\x07\rb.csv:2: has 1 column where the header has 2" in done.output


@pytest.mark.parametrize(
    "name", [b"a", b"k7", b"a-_9", b"A", b".new-1", b"a%41", b"a" * 200, b"a" * 201, b"\xff", b"a b"]
)
def test_a_plain_directory_is_read_at_once_and_as_the_others_are(name: bytes) -> None:
    encoded = names.encode_name(name)
    assert names.decode_plain(encoded) in (None, name)
    assert (names.decode_plain(encoded) == name) == (encoded.encode() == name and len(name) <= 200)


@pytest.mark.parametrize("directory", [".new-1", ".replaced-a", "A", "a%41", "a" * 201, "", "a\n", "é"])
def test_a_directory_that_is_none_of_these_is_not_plain(directory: str) -> None:
    assert names.decode_plain(directory) is None
