"""Backups, manifests and payloads that somebody else made: what they say decides nothing outside its place."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.backups import Backup, make_backup, read_manifest, restore
from diskstream.backups.manifest import NAME
from diskstream.errors import ArgumentError, CorruptionError, DiskstreamError, FormatError, RemoteError, StorageError
from diskstream.exporting.manifest import Manifest as ExportManifest
from diskstream.object_address import Address
from diskstream.objects import Place
from tests.security.planted import a_store, image

OUTSIDE = (
    "../x",
    "/tmp/x",
    "streams/../../x",
    "streams/s/../../../x",
    "streams//x",
    "streams/./x",
    "",
    ".",
    "..",
    "\0",
)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a store, in a place where it can be changed."""
    made = make_backup(a_store(tmp_path / "store"), tmp_path / "backups")
    folder = tmp_path / "given"
    made.path.rename(folder)
    for path in folder.rglob("*"):
        path.chmod(0o750 if path.is_dir() else 0o640)
    return folder


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the lines of a manifest, and makes its checksum right again."""
    *lines, _ = (folder / NAME).read_bytes().splitlines(keepends=True)
    digest, made = hashlib.sha256(), []
    for line in lines:
        found = json.loads(line)
        change(found)
        made.append(json.dumps(found).encode() + b"\n")
        digest.update(made[-1])
    made.append(json.dumps({"end": digest.hexdigest()}).encode() + b"\n")
    (folder / NAME).write_bytes(b"".join(made))


def _restored(folder: Path, target: Path) -> None:
    found = read_manifest(folder)
    restore(Backup(folder, found.header), target)


@pytest.mark.parametrize("path", [*OUTSIDE, "view", "streams", "streams/.deleted-1", "keys", "../../view"])
def test_a_stream_of_a_backup_is_below_its_streams(tmp_path: Path, backup: Path, path: str) -> None:
    """The directory that a manifest said a stream had was made wherever that was, and rewound into."""

    def elsewhere(line: dict[str, Any]) -> None:
        if "stream" in line:
            line["stream"]["path"] = path

    before = image(tmp_path)
    forge(backup, elsewhere)
    with pytest.raises(CorruptionError, match=r"no directory of a stream|is no file"):
        _restored(backup, tmp_path / "new" / "deep" / "store")
    assert {each for each in image(tmp_path) if each not in before} <= {"new", "new/deep"}


@pytest.mark.parametrize(
    "path",
    [
        *OUTSIDE,
        *("view/data.mdb", "ctl", "streams/s/ctl", "streams/s/evil.sh", "streams/s/.hidden", ".bashrc"),
        *("streams/s/quarantine/x", "leases/x/lease.json", "commits/../store.json", "staging/../../x.arrow"),
        *("db0/store.json", "dbx/store.json", "keys/../store.json", "cold-cache/x.seg", "commits/x/lock"),
    ],
)
def test_a_file_of_a_backup_is_one_that_backups_have(tmp_path: Path, backup: Path, path: str) -> None:
    """A control page, or a view, of somebody's making was put into the new store: both are believed once mapped."""

    def elsewhere(line: dict[str, Any]) -> None:
        if line.get("file", {}).get("path", "").endswith(".log"):
            line["file"]["path"] = path

    forge(backup, elsewhere)
    with pytest.raises(CorruptionError, match=r"no directory of a stream|no file of a backup"):
        _restored(backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()


MEMBERS = {
    "": ("number", "made_ms", "patterns", "streams", "size_bytes", "damaged", "place"),
    "stream": ("name", "uuid", "entries", "first_id", "faults"),
    "file": ("size_bytes", "sha256"),
}


@pytest.mark.parametrize("line", MEMBERS)
def test_what_a_manifest_cannot_say_is_damage(backup: Path, line: str) -> None:
    """Each was a Python error out of `backup ls`, `verify`, `create`, `prune` or `restore`."""
    whole = (backup / NAME).read_bytes()
    impossible: list[Any] = [None, True, -1, 1.5, "\ud800", [[]], [7]]
    wrong = [
        *product(MEMBERS[line], impossible),
        *([("sha256", "0" * 63), ("sha256", "g" * 64)] if line == "file" else []),
    ]
    for member, given in wrong:

        def forged(found: dict[str, Any], member: str = member, given: Any = given) -> None:
            facts = found.get(line) if line else found if "format" in found else None
            if facts is not None:
                facts[member] = given

        (backup / NAME).write_bytes(whole)
        forge(backup, forged)
        with pytest.raises(CorruptionError):
            read_manifest(backup)
    (backup / NAME).write_bytes(whole)
    assert read_manifest(backup).header.streams == 1


def test_what_backups_do_have_is_restored(tmp_path: Path, backup: Path) -> None:
    forge(backup, lambda _line: None)
    _restored(backup, tmp_path / "new")
    with diskstream.open(tmp_path / "new") as store:
        assert len(store.stream("s")) == 150


@pytest.mark.timeout(30)
@pytest.mark.parametrize("how", ["link", "pipe"])
def test_a_link_or_pipe_in_a_backup_is_not_followed(tmp_path: Path, backup: Path, how: str) -> None:
    """A link in a backup had whatever it pointed to copied; a pipe was waited at."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"key" * 100)
    (log,) = (backup / "streams" / "s").glob("*.log")
    log.unlink()
    log.symlink_to(secret) if how == "link" else os.mkfifo(log)

    def as_it_is(line: dict[str, Any]) -> None:
        if line.get("file", {}).get("path", "").endswith(".log"):
            line["file"].update(sha256=hashlib.sha256(b"key" * 100).hexdigest(), size_bytes=300)

    forge(backup, as_it_is)
    with pytest.raises(DiskstreamError):
        _restored(backup, tmp_path / "new")
    assert b"keykey" not in b"".join(content or b"" for content in image(tmp_path / "new").values())


def test_a_restore_empties_nothing_that_a_link_leads_to(tmp_path: Path, backup: Path) -> None:
    """The hidden directory beside the target can be foreseen. A link of that name had all that it led to removed."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter").write_text("dear")
    (tmp_path / ".new.restoring").symlink_to(precious, target_is_directory=True)
    with pytest.raises((DiskstreamError, OSError)):
        _restored(backup, tmp_path / "new")
    assert (precious / "letter").read_text() == "dear"
    if os.geteuid() == 0:
        (tmp_path / ".new.restoring").unlink()
        (tmp_path / ".new.restoring").mkdir()
        os.chown(tmp_path / ".new.restoring", 12345, 12345)
        os.seteuid(0)
        real = os.geteuid
        try:
            os.geteuid = lambda: 999
            with pytest.raises(DiskstreamError, match="somebody else's"):
                _restored(backup, tmp_path / "new")
        finally:
            os.geteuid = real


A_LEASE = f"backup-{'0' * 16}"


@pytest.mark.parametrize(
    ("facts", "there"),
    [
        ({"part": "..", "lease": A_LEASE}, f"leases/{A_LEASE}"),
        ({"part": "streams", "lease": "00000001.log"}, "store/streams/leases/00000001.log"),
        ({"part": "", "lease": "of-a-job"}, "store/leases/of-a-job"),
        ({"part": "\ud800", "lease": A_LEASE}, "store"),
        ({"part": "a\0b", "lease": A_LEASE}, "store"),
        ({"part": [], "lease": A_LEASE}, "store"),
        ({"part": "", "lease": [1]}, "store"),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_a_journal_releases_the_leases_of_backups_of_this_store_only(
    tmp_path: Path, facts: dict[str, Any], there: str
) -> None:
    """It could have a folder `leases` beside the store lose what was in it, and a stream of this name its files."""
    store = a_store(tmp_path / "store")
    with diskstream.open(store) as opened:
        opened.stream("leases").add({"n": 1})
    if not (tmp_path / there).exists():
        (tmp_path / there).mkdir(parents=True)
    unfinished = tmp_path / "backups" / ".new-0123"
    make_backup(store, tmp_path / "backups")
    unfinished.mkdir()
    (unfinished / "journal.jsonl").write_text(json.dumps(facts) + "\n")
    make_backup(store, tmp_path / "backups")
    assert (tmp_path / there).exists()
    assert not unfinished.exists()


def test_a_journal_names_files_that_backups_have(tmp_path: Path) -> None:
    """What it pointed to got a second name in the new backup, and changed there when its owner changed it."""
    store = a_store(tmp_path / "store")
    backups = make_backup(store, tmp_path / "backups").path.parent
    for made in backups.glob("2*"):
        shutil.rmtree(made)
    sealed = min((store / "streams" / "s").glob("*.seg"))
    outside = tmp_path / "outside" / sealed.name
    outside.parent.mkdir()
    shutil.copy(sealed, outside)
    identity = sealed.read_bytes()[16:32].hex()
    size, sha256 = sealed.stat().st_size, hashlib.sha256(sealed.read_bytes()).hexdigest()
    facts = {"path": str(outside), "uuid": identity, "size_bytes": size, "sha256": sha256}
    (backups / ".new-0123").mkdir()
    (backups / ".new-0123" / "journal.jsonl").write_text(json.dumps(facts) + "\n")
    make_backup(store, backups)
    assert outside.stat().st_nlink == 1


# --- manifests of jobs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../precious", "staging/../../precious", "/precious", "staging/a/../../../precious"])
def test_a_manifest_of_a_commit_names_staged_files_only(tmp_path: Path, path: str) -> None:
    """What a manifest lists is removed once it is carried out, be it any file: one could come with a backup."""
    from diskstream.spark import commit

    precious = tmp_path / "precious"
    precious.write_text("dear")
    named = str(precious) if path.startswith("/") else path
    folder = tmp_path / "store" / "commits" / hashlib.sha256(b"w").hexdigest()
    with diskstream.open(tmp_path / "store") as store:
        folder.mkdir(parents=True)
        for version in (1, 2):
            facts = {"writer": "w", "version": version, "given": False}
            files = [{"path": named, "partition": 0, "batches": []}]
            (folder / f"{version:020d}.json").write_text(json.dumps({**facts, "files": files}))
        (folder / "done.json").write_text(json.dumps({"writer": "w", "version": 1}))
        commit.finish_left(store)
        with pytest.raises(DiskstreamError, match="is no staged file"):
            commit.commit(store, commit.Manifest("w", 3, given=False, files=()))
    assert precious.read_text() == "dear"


A_BATCH = {"stream": "s", "rows": 1, "first": [1, 0], "last": [1, 0]}
NO_NAMES: list[Any] = [None, 7, [], "\ud800"]


@pytest.mark.parametrize(
    "forged",
    [
        {"writer": 7},
        {"writer": "\ud800"},
        {"version": 1 << 64},
        {"after": 1 << 64},
        *({"batches": [{**A_BATCH, "stream": name}]} for name in NO_NAMES),
        *({"batches": [{**A_BATCH, "first": at}]} for at in (None, [], [[], 0], [-1, 0], ["1", 0], [1 << 64, 0])),
    ],
    ids=str,
)
def test_a_manifest_of_a_commit_that_says_what_cannot_be_is_damage_and_stops_nobody_else(
    tmp_path: Path, forged: dict[str, Any]
) -> None:
    """Each was a Python error out of the writes of all others, too; and what it may list could have been swept."""
    from diskstream.spark import commit

    file = {"path": "staging/job/f.packed", "partition": 0, "batches": forged.pop("batches", [A_BATCH])}
    facts = {"writer": "query:w", "version": 1, "given": True, "files": [file], **forged}
    folder = tmp_path / "store" / "commits" / hashlib.sha256(b"query:w").hexdigest()
    with diskstream.open(tmp_path / "store") as store:
        folder.mkdir(parents=True)
        (folder / "1.json").write_text(json.dumps(facts))
        (folder / "note.json").write_text("of somebody who looked at it")
        assert commit.finish_left(store) == []
        with pytest.raises(StorageError, match="the manifest is damaged"):
            commit.commit(store, commit.Manifest("query:w", 3, given=False, files=()))
    assert (folder / "1.json").exists()


@pytest.mark.parametrize("name", ["..", ".", "../x", "/etc/passwd", "a/b", "", "export.jsonl"])
def test_a_part_of_an_export_is_in_its_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    part = {"file": name, "stream": "s", "entries": 1, "first": "1-0", "last": "1-0", "size_bytes": 1}
    head = {"diskstream_export": 1, "given": {}, "columns": [], "spans": []}
    (tmp_path / "out" / "export.jsonl").write_text(json.dumps(head) + "\n" + json.dumps(part) + "\n")
    with pytest.raises(FormatError):
        ExportManifest.open(tmp_path / "out")


def test_a_deep_manifest_is_damage_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "export.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(FormatError):
        ExportManifest.open(tmp_path / "out")


# --- object storage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://host/x", "https://host/x", "ftp://host/x", "hdfs://host/x", "data:,x", "redis://host", "s3:/x", "x"),
        *("s3://user:password@bucket/x", "s3://key@bucket/x", "s3://bucket/x?access_key=a&secret_key=b"),
        *("s3://bucket/../x", "s3://bucket/%2e%2e/x", "s3://bucket/a%2f..%2fb", "s3://bucket/a//b", "s3://../x"),
        *("file:///../etc", "file:///", "file://host/x", "file:///a/%2e%2e/b", "file:x", "s3://bucket/x#y"),
        *("s3://bucket/a\nb", "s3://bucket/%0a", "s3://bucket/x?region=a&region=b", "s3://bucket/" + "x" * 3000),
        *("gs://bucket/x?anonymous=true", "s3://bucket/x?endpoint_override=host%20evil"),
    ],
)
def test_a_url_of_a_place_is_what_it_may_be(url: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        Address.parse(url)
    for secret in ("password", "secret_key=b"):
        assert f"{secret}@" not in str(refused.value)
        assert "user:" not in str(refused.value)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../b", "a//b", ".hidden", "a/.b", "", "a\0b", "a\nb", "x" * 600]
)
def test_a_path_below_a_place_stays_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "x").write_text("secret")
    place = Place(f"file://{tmp_path}/place")
    for action in (
        lambda: place.read(path, 100),
        lambda: place.size(path),
        lambda: place.remove(path),
        lambda: place.fetch(path, lambda _: None, 6),
        lambda: place.objects(path),
    ):
        with pytest.raises(RemoteError, match="no path of an object"):
            action()
    assert (tmp_path / "x").read_text() == "secret"
