"""What verbs that look say of a stream whose log is damaged: that it is, and no count of what stands before that."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.cold import move_out


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with a sound stream, and one in whose log a group was made behind the damage."""
    with diskstream.open(tmp_path / "store") as store:
        for name in ("broken", "sound"):
            stream = store.stream(name)
            for number in range(50):
                stream.add({"n": number}, f"{number + 1}-1")
            stream.group("late", start="0").consumer("c").read(count=3)
    with (tmp_path / "store/streams/broken/00000001.log").open("r+b") as file:
        file.seek(4096 + 1500)
        file.write(b"rot")
    return tmp_path / "store"


@pytest.mark.parametrize(
    "words",
    [
        "len broken",
        "ls",
        "group ls broken",
        "group ls",
        "group info broken late",
        "group pending broken late",
        "group pending broken late --summary",
        "consumer ls broken late",
        "tail broken",
        "tail broken sound",
        "info broken",
        "count broken",
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_damaged_log_is_told_of(directory: Path, words: str, as_json: bool) -> None:
    """`group ls` listed no group of such a stream, `len` the entries before the damage; both ended with 0.

    A list for programs tells of it as for people, by an object that has what is wrong in place of counts.
    """
    said = CliRunner().invoke(main, [*words.split(), "--dir", str(directory), *["--json"] * as_json])
    assert said.exit_code == 1
    assert "broken/00000001.log" in said.stderr
    assert "there is no group" not in said.stderr
    told = [json.loads(line) for line in said.stdout.splitlines()] if as_json else []
    if as_json and words.startswith(("ls", "group ls")):
        (of_broken,) = (one for one in told if one["stream"] == "broken")
        assert set(of_broken) == {"stream", "error", "hint"}
    elif words.split(maxsplit=1)[0] != "tail":
        assert "broken" not in said.stdout
    if words in ("ls", "group ls"):
        assert "sound" in said.stdout


def test_a_sound_stream_beside_it_is_looked_at_as_ever(directory: Path) -> None:
    for words in ("len sound", "group ls sound", "group info sound late", "consumer ls sound late", "tail sound -n 1"):
        said = CliRunner().invoke(main, [*words.split(), "--dir", str(directory)])
        assert (said.exit_code, said.stderr) == (0, "")


def test_a_repair_is_not_named_where_it_does_nothing(tmp_path: Path) -> None:
    """Of the place of an archive, and of objects in storage, `repair --dry-run` had nothing to say."""
    with diskstream.open(tmp_path / "store", seal="manual") as store:
        for number in range(2):
            store.stream("s").add_many([{"n": number} for _ in range(500)])
            store.stream("s").seal()
        move_out(store.stream("s"), f"file://{tmp_path}/frozen", keep_entries=0)
    (tmp_path / "store/archives").mkdir()
    (tmp_path / "store/archives" / f"{'0' * 64}.json").write_text("rot")
    (moved,) = (tmp_path / "frozen").rglob("*.seg")
    moved.write_bytes(b"rot" + moved.read_bytes()[3:])

    def verified() -> Result:
        said = CliRunner().invoke(main, ["verify", "--cold", "--dir", str(tmp_path / "store")])
        assert said.exit_code == 1
        return said

    said = verified()
    assert "2 faults" in said.stdout
    assert "diskstream repair" not in said.stderr
    (here,) = (tmp_path / "store/streams/s").glob("*.seg")
    here.write_bytes(here.read_bytes()[:-8] + bytes(8))
    assert "diskstream repair --dry-run" in verified().stderr
