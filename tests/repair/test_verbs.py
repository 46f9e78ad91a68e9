"""`diskstream verify`, `repair` and `inspect`, as an operator uses them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.engine import layouts
from diskstream.engine.layouts import FRAME_HEADER, NODE_HEAD
from tests.slow_reader import layouts as slow

Run = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store with a stream `race`: two sealed segments of 200 entries, and 50 in the active log."""
    with diskstream.open(tmp_path / "store", seal="manual", node_max_entries=50) as store:
        stream = store.stream("race")
        for part in range(3):
            ids = [f"{part * 200 + number + 1}-0" for number in range(50 if part == 2 else 200)]
            stream.add_many([{"rider": "Castilla", "n": entry_id} for entry_id in ids], ids=ids)
            if part < 2:
                store.seal("race")
        stream.group("g", start="0").consumer("c").read(count=7)

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
        assert result.exit_code == code, result.output
        return result

    return run_verb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store" / "streams" / "race"


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["verify --stream race --stream rice", "repair --force --stream rice", "inspect rice"]
)
def test_a_misspelt_stream_is_named(run: Run, words: str) -> None:
    """It was among "not all of these", or told as bytes, with Redis's words before it."""
    told = " ".join(run(*words.split(), code=1).stderr.split())
    assert "error: there is no stream rice in /" in told
    assert "hint: diskstream ls lists the streams" in told


@pytest.mark.parametrize("misspelt", ["verify", "repair"])
def test_a_misspelt_stream_is_not_sound(run: Run, tmp_path: Path, misspelt: str) -> None:
    """Python was told that all is well, and so was the command where a server had other streams below the store."""
    place = tmp_path / "store"
    with diskstream.open(place / "db1") as below:
        below.stream("other").add({"n": 1})
    with pytest.raises(diskstream.NoSuchStreamError, match="rice"):
        if misspelt == "verify":
            diskstream.verify(place, streams=["rice"])
        else:
            list(diskstream.repair(place, streams=["rice"]))
    run(misspelt, "--stream", "rice", *["--force"][: misspelt == "repair"], code=1)


def test_a_stream_that_is_named_is_read_and_no_other(run: Run, tmp_path: Path) -> None:
    """Those of the databases below were read all the same."""
    with diskstream.open(tmp_path / "store" / "db1") as below:
        below.stream("other").add({"n": 1})
        below.stream("race").add({"n": 1})
    assert objects(run("verify", "--stream", "race", "--json"))[0]["entries"] == 451
    assert objects(run("verify", "--stream", "other", "--json"))[0]["entries"] == 1


# --- store.json -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["ls", "add race a=1", "range race", "import - --stream race", "serve --port 0"])
@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_store_that_lost_its_description_is_not_made_anew(
    run: Run, tmp_path: Path, verb: str, content: bytes | None
) -> None:
    """The next writer made another store of it without a word, which archives and jobs then refused. And of one that is
    damaged nobody said what to do."""
    description = tmp_path / "store" / "store.json"
    description.unlink() if content is None else description.write_bytes(content)
    told = run(*verb.split(), "--dir", str(tmp_path / "store"), code=1).stderr
    assert "store.json" in told
    assert "hint: diskstream repair makes it anew" in told
    assert (description.read_bytes() if description.exists() else None) == content
    run("repair", "--force")
    assert run("len", "race").stdout == "450\n"


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_says_what_a_fault_means_and_which_ids_it_touches(run: Run, folder: Path) -> None:
    assert "0 faults" in run("verify").stdout
    flip(folder / "00000001.seg", 64 + NODE_HEAD.size + 3)
    shown = run("verify", code=1).stdout
    assert "these 50 entries cannot be read; the rest of the stream can" in shown
    assert "IDs 1-0 to 50-" in shown
    (report,) = objects(run("verify", "--json", code=1))
    assert report["ok"] is False
    (problem,) = report["problems"]
    assert (problem["stream"], problem["first"], problem["entries"]) == ("race", "1-0", 50)
    assert report["entries"] == 400


def test_verify_reads_what_cannot_be_opened(run: Run, folder: Path) -> None:
    (folder.parents[1] / "store.json").write_text("{")
    flip(folder / "00000003.log", 4100)
    shown = run("verify", code=1).stdout
    assert "store.json" in shown
    assert "00000003.log" in shown
    assert "2 faults" in shown


def test_verify_of_one_stream_leaves_the_others_out(run: Run, folder: Path) -> None:
    run("add", "road", "a=1")
    flip(folder / "00000001.seg", 100)
    assert "1 stream," in run("verify", "--stream", "road").stdout
    run("verify", "--stream", "race", code=1)
    assert "hint:" in run("verify", "--stream", "rode", code=1).stderr


def test_what_lies_about_is_noted_and_no_fault(run: Run, folder: Path) -> None:
    (folder / "quarantine").mkdir()
    (folder / "quarantine" / "00000009.log-1").write_bytes(b"x")
    (folder / "notes.txt").write_text("mine")
    (folder / "00000002.seg.tmp").write_text("half")
    shown = run("verify").stdout
    assert all(word in shown for word in ("1 file, kept by", "notes.txt: no part", "00000002.seg.tmp"))


def test_a_missing_segment_and_a_missing_log_are_faults(run: Run, folder: Path) -> None:
    (folder / "00000002.seg").rename(folder / "00000008.seg.away")
    assert "its 200 entries are gone, unless the file turns up" in run("verify", code=1).stdout
    (folder / "00000003.log").unlink()
    assert "cannot be opened" in run("verify", code=1).stdout


def test_a_damaged_log_that_is_not_sealed_is_not_in_object_storage(tmp_path: Path) -> None:
    """Whoever was on call was sent to the object storage: what is no sealed file was taken for a stub."""
    with diskstream.open(tmp_path / "store", seal="manual", segment_bytes=8192) as store:
        store.stream("s").add_many([{"n": n, "text": "x" * 200} for n in range(30)])
        store.stream("s").add_many([{"n": n, "text": "x" * 200} for n in range(30)])
    rolled = tmp_path / "store" / "streams" / "s" / "00000001.log"
    assert rolled.with_name("00000002.log").exists()
    flip(rolled, 4200)
    (problem,) = diskstream.verify(tmp_path / "store").problems
    assert problem.path == rolled
    assert "a repair finds all that are sound" in problem.meaning
    assert "object storage" not in problem.meaning


# --- repair -----------------------------------------------------------------------------------------------------------


def test_repair_asks_shows_a_plan_and_says_what_is_lost(run: Run, folder: Path) -> None:
    assert run("repair", "--dry-run").stdout == "nothing to repair\n"
    flip(folder / "00000001.seg", 64 + NODE_HEAD.size + 3)
    assert "would do: wrote segment 1 anew: 150 of 200" in run("repair", "--dry-run", code=1).stdout
    assert "nothing was done" in run("repair", given="n\n", code=1).stderr
    run("verify", code=1)
    shown = run("repair", given="y\n").stdout
    assert "lost: 00000001.seg at 64: node 0 is damaged: at most 50 entries from 1-0 to 50-" in shown
    assert "kept: " in shown
    run("verify")
    assert run("repair", "--force").stdout == "nothing to repair\n"
    assert run("len", "race").stdout == "400\n"


def test_nobody_is_asked_about_what_is_no_store(run: Run, tmp_path: Path) -> None:
    told = run("repair", "--dir", str(tmp_path / "nowhere"), given="y\n", code=1)
    assert "is not a diskstream store" in told.stderr
    assert "[y/N]" not in told.output
    run("backup", str(tmp_path / "backups"))
    (backup,) = (path for path in (tmp_path / "backups").iterdir() if path.is_dir())
    told = run("repair", "--dir", str(backup), given="y\n", code=1)
    assert "it is a backup, which never changes" in told.stderr
    assert "[y/N]" not in told.output


def test_repair_as_json_is_an_object_a_line(run: Run, folder: Path) -> None:
    flip(folder / "00000003.log", 4096 + 20)
    (report,) = objects(run("repair", "--force", "--json"))
    assert (report["stream"], report["done"], report["losses"]) == ("race", True, [])
    assert report["actions"] == ["00000003.log is made anew from what is whole"]


def test_repair_of_a_store_in_use_says_what_to_do(run: Run, folder: Path) -> None:
    with diskstream.open(folder.parents[1]):
        failed = run("repair", "--force", code=1)
    assert "in use" in failed.stderr
    assert "hint:" in failed.stderr
    assert "is not a diskstream store" in run("repair", "--force", "-d", str(folder), code=1).stderr


@pytest.mark.parametrize("tool", ["repair", "verify"])
def test_the_programs_in_tools_are_the_verbs(run: Run, folder: Path, tool: str) -> None:
    assert run(tool, "--help").stdout
    command = [sys.executable, str(ROOT / "tools" / f"{tool}.py"), "--dir", str(folder.parents[1])]
    command += ["--force"] if tool == "repair" else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nothing to repair" in done.stdout or "0 faults" in done.stdout


def test_a_store_that_was_made_anew_with_another_uuid_gets_back_that_of_its_backups(run: Run, tmp_path: Path) -> None:
    """Its next backup was refused as another store's, and nothing said that the backups know the uuid."""
    backups = str(tmp_path / "backups")
    run("backup", "create", backups)
    description = tmp_path / "store" / "store.json"
    description.unlink()
    planned = " ".join(run("repair", "--dry-run", code=1).stdout.split())
    assert (
        "`diskstream backup ls --json` and a manifest of an archive have it as 'store'), repair with --uuid" in planned
    )
    done = " ".join(run("repair", "--force").stdout.split())
    assert "remove the new store.json, and repair with --uuid" in done
    assert "holds the backups of another store" in run("backup", "create", backups, code=1).stderr.replace("\n", " ")
    (known,) = [json.loads(line)["store"] for line in run("backup", "ls", backups, "--json").stdout.splitlines()]
    description.unlink()
    run("repair", "--force", "--uuid", known)
    run("backup", "create", backups)


# --- inspect ----------------------------------------------------------------------------------------------------------


def test_inspect_shows_the_store_its_streams_and_their_parts(run: Run) -> None:
    kinds = [row["is"] for row in objects(run("inspect", "--json"))]
    assert kinds[:2] == ["store", "stream"]
    rows = objects(run("inspect", "race", "--json"))
    segments = [row for row in rows if row["is"] == "segment"]
    assert [(row["number"], row["live"], row["first"], row["last"]) for row in segments] == [
        (1, 200, "1-0", "200-0"),
        (2, 200, "201-0", "400-0"),
    ]
    assert all(row["nodes"] == 4 and row["ratio"] > 1 for row in segments)
    (group,) = [row for row in rows if row["is"] == "group"]
    assert (group["name"], group["pending"], group["last"]) == ("g", 7, "7-0")
    assert {"state", "active log", "ctl"} <= {row["is"] for row in rows}
    assert "there is no stream rase" in run("inspect", "rase", code=1).stderr


def test_inspect_shows_who_keeps_others_from_adding(run: Run, tmp_path: Path) -> None:
    """As one that was stopped in the middle of an append: all who add wait for it, and nothing else says for whom."""
    (page,) = [row for row in objects(run("inspect", "race", "--json")) if row["is"] == "ctl"]
    assert "held" not in page
    program = """
import os, signal, sys, diskstream
store = diskstream.open(sys.argv[1])
with store._log(b"race", create=False).locked():
    os.kill(os.getpid(), signal.SIGSTOP)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "store")]) as stopped:
        os.waitpid(stopped.pid, os.WUNTRACED)
        (page,) = [row for row in objects(run("inspect", "race", "--json")) if row["is"] == "ctl"]
        stopped.kill()
    assert list(page["held"]) == ["append"]
    assert (page["held"]["append"]["process"], page["held"]["append"]["state"]) == (stopped.pid, "T (stopped)")
    with diskstream.open(tmp_path / "store") as store:
        store.stream("race").add({"n": 1})


def test_inspect_of_a_file_that_is_taken_for_a_stream_says_how_files_are_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("00000001.seg").write_bytes(b"")
    assert "a file is named with a slash: ./00000001.seg" in run("inspect", "00000001.seg", code=1).stderr


def test_inspect_shows_frames_and_entries_of_a_log(run: Run, folder: Path) -> None:
    log = str(folder / "00000003.log")
    frames = [row for row in objects(run("inspect", log, "--frames", "--json")) if row["is"] == "frame"]
    assert [row["kind"] for row in frames[:2]] == ["snapshot", "entries"]
    assert {"groups", "mark"} <= {row["kind"] for row in frames}
    assert all(row["sound"] for row in frames)
    assert [row["lsn"] for row in frames] == list(range(frames[0]["lsn"], frames[0]["lsn"] + len(frames)))
    rows = objects(run("inspect", log, "--entries", "--json"))
    assert [row["id"] for row in rows if row["is"] == "entry"] == [f"{number}-0" for number in range(401, 451)]
    assert [row["kind"] for row in rows if row["is"] == "record"][:3] == ["create", "consumer", "deliver"]


def test_inspect_shows_the_entries_of_a_stream(run: Run) -> None:
    """Of a stream --entries was taken, and showed nothing, unless --frames was there too."""
    rows = objects(run("inspect", "race", "--entries", "--json"))
    assert [row["id"] for row in rows if row["is"] == "entry"] == [f"{number}-0" for number in range(1, 451)]
    assert {"create", "consumer", "deliver"} <= {row["kind"] for row in rows if row["is"] == "record"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--entries", "--frames, --nodes and --entries want a stream or a file"),
        ("--nodes", "--frames, --nodes and --entries want a stream or a file"),
        ("race --each-byte", "--each-byte wants --bytes"),
    ],
)
def test_inspect_passes_over_no_option(run: Run, words: str, told: str) -> None:
    assert told in run("inspect", *words.split(), code=2).stderr


def test_inspect_shows_nodes_index_and_footer_of_a_sealed_segment(run: Run, folder: Path) -> None:
    rows = objects(run("inspect", str(folder / "00000001.seg"), "--nodes", "--entries", "--json"))
    nodes = [row for row in rows if row["is"] == "node"]
    assert [(row["first"], row["last"], row["entries"]) for row in nodes] == [
        (f"{start}-0", f"{start + 49}-0", 50) for start in (1, 51, 101, 151)
    ]
    assert nodes[0]["of_shapes"] == [{"rows": 50, "fields": ["rider", "n"]}]
    assert sum(row["is"] == "entry" for row in rows) == 200
    assert [row["before"] for row in rows if row["is"] == "index row"] == [0, 50, 100, 150]
    assert {"segment header", "snapshot copy", "footer"} <= {row["is"] for row in rows if row.get("sound")}


def test_inspect_shows_what_can_be_shown_of_a_damaged_file(run: Run, folder: Path) -> None:
    log, sealed = folder / "00000003.log", folder / "00000001.seg"
    frames = [row for row in objects(run("inspect", str(log), "--frames", "--json")) if row["is"] == "frame"]
    flip(log, frames[1]["offset"] + FRAME_HEADER.size)
    rows = objects(run("inspect", str(log), "--frames", "--json"))
    (bad,) = [row for row in rows if row["is"] == "damaged"]
    assert (bad["offset"], bad["header_says"], bad["entries"]) == (frames[1]["offset"], "entries", 50)
    assert sum(row["is"] == "frame" for row in rows) == len(frames) - 1
    sealed.write_bytes(sealed.read_bytes()[:300])
    rows = objects(run("inspect", str(sealed), "--json"))
    assert any(row["is"] == "footer" and not row["sound"] for row in rows)


def test_bytes_are_shown_with_the_field_that_they_belong_to(run: Run, folder: Path) -> None:
    log, sealed = str(folder / "00000003.log"), folder / "00000001.seg"
    rows = objects(run("inspect", log, "--bytes", "0x1000:64", "--json"))
    assert rows[0]["of"].endswith("(snapshot) header: salt")
    assert next(row["value"] for row in rows if row["of"].endswith("kind")) == layouts.SNAPSHOT
    whole = "".join(row["hex"] for row in objects(run("inspect", str(sealed), "--bytes", "0:100000", "--json")))
    assert whole == sealed.read_bytes().hex()
    each = objects(run("inspect", str(sealed), "--bytes", "0:16", "--each-byte", "--json"))
    assert [row["offset"] for row in each] == list(range(16))
    assert "segment header: salt" in run("inspect", str(sealed), "--bytes", "8:8").stdout
    assert "OFFSET:LENGTH" in run("inspect", str(sealed), "--bytes", "8", code=2).stderr
    past = run(
        "inspect", str(sealed), "--bytes", f"{len(whole) // 2}:1", code=1
    ).stderr  # it was nothing, with status 0
    assert f"hint: it has {len(whole) // 2:,} bytes" in past


def test_an_audit_and_a_file_of_no_kind_can_be_inspected(run: Run, folder: Path) -> None:
    run("seal", "race")
    rows = objects(run("inspect", str(folder / "00000003.audit"), "--frames", "--json"))
    assert {"audit header", "audit block head", "audit footer"} <= {row["is"] for row in rows if row.get("sound")}
    other = folder / "notes.txt"
    other.write_text("mine")
    assert objects(run("inspect", str(other), "--json"))[0]["kind"] == "unknown"
    assert "no file" in run("inspect", str(folder / "none.log"), code=1).stderr


def test_the_layouts_are_those_of_the_pages() -> None:
    """`slow_reader.layouts` is held against docs/format/ by other tests."""
    ours = {each.name: each.packed for each in vars(layouts).values() if isinstance(each, layouts.Layout)}
    assert {name: layout.size for name, layout in ours.items()} == {name: slow.LAYOUTS[name].size for name in ours}
    assert {name: layout.format.lower() for name, layout in ours.items()} == {
        name: slow.LAYOUTS[name].format.lower() for name in ours
    }
    assert {name: number for number, name in layouts.KINDS.items()} == slow.KINDS


def test_what_is_not_there_is_not_said_to_be_sound(run: Run) -> None:
    """A name that was mistyped got "nothing to repair", and status 0."""
    for more in (["--dry-run"], ["--force"]):
        assert "there is no stream rase" in run("repair", "--stream", "rase", *more, code=1).stderr
        run("repair", "--uuid", "mine", *more, code=2)
    result = run("repair", "--stream", "rase", code=1, given="y\n")
    assert "there is no stream rase" in result.stderr
    assert "Repair" not in result.stderr  # nobody is asked for consent to what cannot be done
    assert "Repair" in run("repair", "--stream", "rase", "--name", "rase", code=1, given="n\n").stderr


def test_a_backup_is_never_repaired_in_place(run: Run, tmp_path: Path) -> None:
    """It was opened for writing: its files, which other backups share, and files beside them that verify then found."""
    run("backup", str(tmp_path / "kept"))
    (backup,) = (path for path in (tmp_path / "kept").iterdir() if path.is_dir())
    assert "nothing to repair" in run("repair", "--dir", str(backup), "--dry-run").stdout
    assert "it is a backup" in run("repair", "--dir", str(backup), "--force", code=1).stderr
    assert "0 faults" in run("backup", "verify", str(tmp_path / "kept")).stdout
