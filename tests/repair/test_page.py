"""What docs/repair.md has whoever is on call type, against a store that is damaged."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "repair.md").read_text(encoding="utf-8")
STATUS = {
    "verify --dir data": 1,
    "repair --dir data --dry-run": 1,
    "backup verify backups": 0,
    "repair --dir data --force": 0,
    "restore backups --to restored": 0,
    "restore backups --to data --stream race --as race:before": 0,
}


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def test_the_commands_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with diskstream.open("data", seal="manual", node_max_entries=50) as store:
        race = store.stream("race")
        race.add_many([{"n": n} for n in range(200)], ids=[f"{n}-1" for n in range(1, 201)])
        race.seal()
        race.add({"n": 200}, "201-1")
        race.add({"n": 201}, "202-1")
        store.stream("sound").add({"n": 1})
    assert CliRunner().invoke(main, ["backup", "backups", "--dir", "data"]).exit_code == 0
    folder = Path("data/streams/race")
    flip(folder / "00000001.seg", 300)
    with diskstream.open("data", read_only=True) as store:
        assert store.stream("race").get("202-1") is not None
    log = (folder / "00000002.log").read_bytes()
    flip(folder / "00000002.log", log.index(b"200", 4096))

    with diskstream.open("data") as store:  # "sound streams take entries; the damaged one takes none, and is read"
        store.stream("sound").add({"n": 2})
        with pytest.raises(diskstream.DiskstreamError):
            store.stream("race").add({"n": 202})
        assert store.stream("race").get("200-1") is not None

    commands = re.findall(r"^\$ diskstream (.*)$", PAGE, flags=re.MULTILINE)
    assert set(commands) == set(STATUS)
    mended = False
    for command in commands:
        done = CliRunner().invoke(main, command.split())
        mended = mended or "--force" in command
        assert done.exit_code == (0 if mended else STATUS[command]), (command, done.output)
        if "repair" in command:
            assert "lost:" in done.stdout
    with diskstream.open("data") as store:
        assert len(store.stream("race:before")) == 202
        assert 0 < len(store.stream("race")) < 202
        store.stream("race").add({"n": 202})
    with diskstream.open("restored") as store:
        assert len(store.stream("race")) == 202
    assert diskstream.verify("data").ok
