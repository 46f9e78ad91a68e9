"""Tables on a terminal that is narrower than they are, and in a pipe."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.cold import move_out

ID = "1714521600000-12345"
LONG = "long:" + "x" * 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A stream with a long name, an ID and a group, of which one segment is in a folder."""
    with diskstream.open(tmp_path / "store", seal="manual") as store:
        for name in ("s", LONG):
            stream = store.stream(name)
            for number in (1, 2):
                stream.add({"n": number}, f"{number}-1")
                stream.seal()
            stream.add({"n": 3}, ID)
            stream.create_group("g", "0").consumer("c").read()
        move_out(store.stream("s"), f"file://{tmp_path}/place", before="2")
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (["ls"], [ID, LONG]),
        (["group", "ls"], [ID, LONG]),
        (["group", "info", "s", "g"], [ID]),
        (["info", LONG], [LONG, ID, f"last entry               {ID}  n=3\n"]),
        (["consumer", "ls", "s", "g"], ["inactive"]),
        (["cold", "ls"], ["2-1", LONG]),
        (["compact"], [LONG]),
        (["spark", "archive", "--archive", "a", "--dry-run"], [LONG]),
    ],
)
@pytest.mark.parametrize("columns", ["20", "80"])
def test_no_name_and_no_id_is_cut(
    path: Path, words: list[str], whole: list[str], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 44 columns of a terminal `ls` showed `17145216…`; a name of 400 bytes was cut in a pipe, too."""
    monkeypatch.setenv("COLUMNS", columns)
    done = CliRunner().invoke(main, [*words, "--dir", str(path)])
    assert done.exit_code == 0, done.output
    assert [each for each in whole if each not in done.stdout] == []
    assert "…" not in done.stdout
