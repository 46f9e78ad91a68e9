"""A file of a stream that a later version wrote is no damage: it is refused, named, and left as it is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import NewerFormatError, VerifyReport
from diskstream._native import checksum
from diskstream.cli import main
from diskstream.retention_rule import RetentionRule
from tests.repair.test_cases import flip, folder

LATER = 2


def build(path: Path) -> None:
    """A stream with a sealed segment that has an audit, a rolled log that is not sealed, and an active log."""
    with diskstream.open(path, seal="manual", segment_bytes=16 << 10, node_max_entries=4) as store:
        stream = store.stream("s")
        for number in range(1, 9):
            stream.add({"n": str(number)}, f"{number}-0")
        stream.group("g", start="0").consumer("c").read(count=3)
        store.seal("s")
        for number in range(9, 60):
            stream.add({"n": "." * 400}, f"{number}-0")


def put(path: Path, at: int, value: bytes, start: int, size: int) -> None:
    """Other bytes in a structure of `size` bytes at `start` that ends with its checksum, which is right again."""
    data = bytearray(path.read_bytes())
    start %= len(data)
    data[start + at : start + at + len(value)] = value
    end = start + size - 4
    data[end : end + 4] = checksum(bytes(data[start:end])).to_bytes(4, "little")
    path.write_bytes(bytes(data))


VERSION = LATER.to_bytes(4, "little")


def rolled_log(stream: Path) -> Path:
    path = min(stream.glob("*.log"))
    assert path != max(stream.glob("*.log"))
    put(path, 8, VERSION, 0, 64)
    return path


def active_log(stream: Path) -> Path:
    path = max(stream.glob("*.log"))
    put(path, 8, VERSION, 0, 64)
    return path


def sealed_file(stream: Path) -> Path:
    path = stream / "00000001.seg"
    put(path, 8, VERSION, 0, 64)
    put(path, 8, VERSION, -192, 192)
    return path


def sealed_file_with_a_damaged_index(stream: Path) -> Path:
    path = sealed_file(stream)
    flip(path, path.stat().st_size - 192 - 10)
    return path


def sealed_file_that_no_list_names(stream: Path) -> Path:
    """What segments there are has to be found out from the segments."""
    for path in [max(stream.glob("*.log")), *stream.glob("*.state")]:
        path.unlink()
    return sealed_file(stream)


def codec_of_a_node(stream: Path) -> Path:
    path = stream / "00000001.seg"
    put(path, 20, b"\x02", 64, 32)
    return path


def codec_of_a_node_behind_a_damaged_footer(stream: Path) -> Path:
    path = codec_of_a_node(stream)
    flip(path, path.stat().st_size - 100)
    return path


def audit_file(stream: Path) -> Path:
    path = stream / "00000001.audit"
    put(path, 8, VERSION, 0, 64)
    return path


def codec_of_an_audit(stream: Path) -> Path:
    path = stream / "00000001.audit"
    put(path, 20, b"\x02", 64, 48)
    return path


Write = Callable[[Path], Path]
OF_ENTRIES: list[Write] = [
    active_log,
    rolled_log,
    sealed_file,
    sealed_file_with_a_damaged_index,
    sealed_file_that_no_list_names,
    codec_of_a_node,
    codec_of_a_node_behind_a_damaged_footer,
]
SOUND: list[Write] = [rolled_log, sealed_file, codec_of_a_node]
OF_AUDITS: list[Write] = [audit_file, codec_of_an_audit]


def contents(stream: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(stream.iterdir()) if path.is_file() and path.name != "ctl"}


@pytest.mark.parametrize("write", OF_ENTRIES + OF_AUDITS, ids=lambda write: write.__name__)
def test_a_repair_leaves_it_alone(tmp_path: Path, write: Write) -> None:
    """A node of an unknown codec was taken off the list, and a rolled log of a later version written anew."""
    build(tmp_path)
    stream = folder(tmp_path)
    path = write(stream)
    before = contents(stream)
    (report,) = diskstream.repair(tmp_path)
    assert "upgrade" in report.failed
    assert path.name in report.failed
    assert report.losses == []
    assert contents(stream) == before


@pytest.mark.parametrize("write", SOUND, ids=lambda write: write.__name__)
def test_a_read_and_a_compaction_refuse_it(tmp_path: Path, write: Write) -> None:
    build(tmp_path)
    path = write(folder(tmp_path))
    with diskstream.open(tmp_path, read_only=True) as store, pytest.raises(NewerFormatError, match=path.name):
        list(store.stream("s").range())
    data = path.read_bytes()
    with diskstream.open(tmp_path, seal="manual") as store, pytest.raises(NewerFormatError, match=path.name):
        store.compact("s")
    assert path.read_bytes() == data


@pytest.mark.parametrize("write", SOUND + OF_AUDITS, ids=lambda write: write.__name__)
def test_a_verify_says_that_it_is_not_damaged(tmp_path: Path, write: Write) -> None:
    """It said what a repair would find of it: none touches it."""
    build(tmp_path)
    path = write(folder(tmp_path))
    with diskstream.open(tmp_path, read_only=True) as store:
        report: VerifyReport = store.verify()
    (problem,) = report.problems
    assert problem.path == path
    assert "upgrade" in problem.what
    assert problem.meaning.startswith("nothing of it is known to be damaged")


@pytest.mark.parametrize("words", [["verify"], ["ls"], ["group", "ls"]], ids=" ".join)
def test_the_other_streams_are_told_of_all_the_same(tmp_path: Path, words: list[str]) -> None:
    """One stream of a later version, and nothing was said of the others."""
    build(tmp_path)
    with diskstream.open(tmp_path) as store:
        store.stream("other").add({"n": "1"}, "1-1")
        store.stream("other").create_group("there")
    path = active_log(folder(tmp_path))
    done = CliRunner().invoke(main, [*words, "--dir", str(tmp_path)])
    assert done.exit_code == 1
    assert f"{path}: log file has format 2" in done.output
    assert {"verify": "2 streams", "ls": "other", "group": "there"}[words[0]] in done.stdout


RESERVED = "bytes 10 and 11 of a frame's header, which are reserved, are not zero"


@pytest.mark.parametrize(
    ("at", "value", "said", "inspected"),
    [
        (10, b"\1\0", RESERVED, "bytes 10 and 11 of the header, which are reserved, are not zero"),
        (10, b"\0\1", RESERVED, "bytes 10 and 11 of the header, which are reserved, are not zero"),
        (9, b"\2", "a frame has the flags 0x02", "it has the flags 0x02"),
        (9, b"\1\1\0", "a frame has the flags 0x01, or reserved bytes (10 and 11 of its head", "it has the flags 0x01"),
        (8, b"\x4d", "a frame is of kind 77", "it is of kind 77"),
    ],
)
def test_what_a_later_version_wrote_into_a_frame_is_named(
    tmp_path: Path, at: int, value: bytes, said: str, inspected: str
) -> None:
    """It was a format: of reserved bytes the format 0, of kind 77 the format 77."""
    build(tmp_path)
    log = max(folder(tmp_path).glob("*.log"))
    put(log, at, value, 4096, 64)
    way = "which only a later version of diskstream understands: upgrade"
    told = CliRunner().invoke(main, ["len", "s", "--dir", str(tmp_path)]).stderr
    assert told.startswith(f"error: {log}: {said}")
    assert f"{way}\n" in told
    told = CliRunner().invoke(main, ["inspect", str(log)]).stdout
    assert f"a frame at offset 4096 is not of this version: {inspected}" in told
    assert way in told


def test_what_is_no_frame_is_no_format_either(tmp_path: Path) -> None:
    """A store's feature and a rule's word were formats, too."""
    build(tmp_path)
    description = tmp_path / "store.json"
    described = json.loads(description.read_text())
    described["features"]["incompatible"] = ["twice", "thrice"]
    description.write_text(json.dumps(described))
    told = CliRunner().invoke(main, ["ls", "--dir", str(tmp_path)])
    assert told.exit_code == 1
    way = "which only a later version of diskstream understands: upgrade"
    assert told.stderr == f"error: {description}: its incompatible features name twice, thrice, {way}\n"
    with pytest.raises(NewerFormatError, match=f"a rule of retention says 'phase', {way}"):
        RetentionRule.unpack(b'{"phase": "full"}', "store/streams/s")
