"""`diskstream replay`: what operators see."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

import diskstream
from diskstream.backups import make_backup
from diskstream.cli import main
from diskstream.cli import replay as replay_verb
from tests.conftest import RedisServer

Run = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with six entries, a second apart; one name is repeated, one byte is not UTF-8."""
    with diskstream.open(tmp_path / "store") as store:
        for number in range(6):
            pairs = [("n", str(number)), ("n", "again"), (b"raw", b"\xff")] if number == 3 else [("n", str(number))]
            store.stream("x").add(pairs, f"{1_714_521_600_000 + 1000 * number}-0")
    return tmp_path / "store"


@pytest.fixture
def run(directory: Path) -> Run:
    def run_verb(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["replay", *words], env={"DISKSTREAM_DIR": str(directory)})
        assert result.exit_code == code, result.output
        return result

    return run_verb


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> str:
    """The address of a Redis with nothing in it."""
    where = f"redis://{redis_server.host}:{redis_server.port}/0"
    with redis.Redis.from_url(where) as client:
        client.flushall()
    return where


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_standard_output_is_that_of_range(run: Run, directory: Path) -> None:
    ranged = CliRunner().invoke(main, ["range", "x", "--json", "--dir", str(directory)])
    assert run("x", "--to", "-").stdout == ranged.stdout
    some = objects(run("x", "--to", "-", "--where", "n>1", "--where", "n<5"))
    assert [each["id"][9] for each in some] == ["2", "3", "4"]
    assert [each["id"] for each in objects(run("x", "--to", "-", "--start", "2024-05-01T00:00:04Z"))] == [
        "1714521604000-0",
        "1714521605000-0",
    ]
    assert objects(run("x", "--to", "-", "--end", "2024-05-01T00:00:00Z"))[0]["fields"] == {"n": "0"}


def test_a_dry_run_says_what_it_would_take(run: Run, directory: Path) -> None:
    assert "would send 6 of 6 entries" in run("x", "--to", "stream:y", "--dry-run").stdout
    (told,) = objects(run("x", "--to", "stream:y", "--dry-run", "--json", "--speed", "10"))
    assert (told["entries"], told["seconds"]) == (6, 0.5)
    with diskstream.open(directory, read_only=True) as store:
        assert not store.exists("y")


def test_a_dry_run_of_the_slowest_pace_and_the_farthest_ids_says_so(run: Run, directory: Path) -> None:
    """With less of a speed it was longer than any number, and no dry run could say it."""
    with diskstream.open(directory) as store:
        store.stream("x").add({"n": 9}, f"{2**64 - 1}-0")
    words = ("x", "--to", "stream:y", "--dry-run", "--speed", "0.000001", "--rate", "0.000001")
    assert " d: IDs 1714521600000-0 to 18446744073709551615-0" in run(*words).stdout
    (told,) = objects(run(*words, "--json"))
    assert told["seconds"] == pytest.approx(2**64 * 1000, rel=1e-3)


def test_a_dry_run_knows_of_earlier_runs_and_of_what_would_be_refused(
    run: Run, empty_redis: str, directory: Path, tmp_path: Path
) -> None:
    for target in (f"stream:y@{tmp_path / 'other'}", f"{empty_redis}?key=y"):
        again = ("x", "--to", target, "--speed", "max")
        assert "would send 6 of 6" in run(*again, "--dry-run").stdout
        run(*again, "--where", "n<2", "--name", "some")  # which is another replay, and takes the IDs
        assert "has passed the IDs" in run(*again, "--dry-run", code=1).stderr
        ended = (*again, "--where", "n<2", "--name", "some", "--dry-run")
        assert "complete before: nothing would be done" in run(*ended).stdout
        (told,) = objects(run(*ended, "--json"))
        assert (told["complete"], told["resumed"], told["entries"]) == (True, True, 0)
        assert "another where" in run(*again, "--name", "some", "--dry-run", code=1).stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("stream:y@@/file", "is not a diskstream store: it is a file"),
        ("stream:y@@/file/below", "file/below: Not a directory"),
        ("stream:y@@/folder", "it holds something else (file)"),
        ("stream:y@@/link", "it is a link to nothing"),
        ("stream:y@@/backups/{}", "it is a backup, which never changes"),
        ("stream:" + "y" * 5000 + "@@/new", "the name of a stream of 5000"),
    ],
)
def test_a_dry_run_refuses_a_place_where_nothing_can_be_added(
    run: Run, directory: Path, tmp_path: Path, target: str, said: str
) -> None:
    """It told how much it would send there."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("nowhere")
    backup = make_backup(directory, tmp_path / "backups").path.name
    for more in ((), ("--dry-run",)):
        told = run("x", "--to", target.replace("@@", f"@{tmp_path}").format(backup), *more, code=1).stderr
        assert said in " ".join(told.split())
    assert not (tmp_path / "new").exists()


def test_a_complete_replay_whose_target_is_gone_is_not_called_complete(
    run: Run, empty_redis: str, tmp_path: Path
) -> None:
    targets = f"{empty_redis}?key=y", f"stream:y@{tmp_path / 'other'}"
    for target in targets:
        run("x", "--to", target, "--speed", "max")
    with redis.Redis.from_url(empty_redis) as client:
        client.delete("y")
    with diskstream.open(tmp_path / "other") as store:
        store.delete("y")
    for target in targets:
        for more in ((), ("--dry-run",)):
            assert "--name" in run("x", "--to", target, "--speed", "max", *more, code=1).stderr


def test_a_stream_of_the_same_store_and_of_another(run: Run, directory: Path, tmp_path: Path) -> None:
    assert "6 of 6 entries sent" in run("x", "--to", "stream:y", "--speed", "max").stdout
    assert "complete before" in run("x", "--to", "stream:y", "--speed", "max").stdout
    (told,) = objects(run("x", "--to", f"stream:a@b@{tmp_path / 'other'}", "--speed", "1000", "--json"))
    assert told["complete"]
    with diskstream.open(tmp_path / "other", read_only=True) as other, diskstream.open(directory) as store:
        assert [entry.pairs for entry in other.stream("a@b")] == [entry.pairs for entry in store.stream("y")]


def test_a_span_that_is_since_now(run: Run, directory: Path) -> None:
    with diskstream.open(directory) as store:
        store.stream("x").add({"n": "now"})
    assert [each["fields"]["n"] for each in objects(run("x", "--to", "-", "--since", "1h"))] == ["now"]


def test_a_span_that_begins_behind_the_end_is_refused_unless_it_began_before(
    run: Run, directory: Path, empty_redis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that 0 of 0 entries were sent, and that this was complete; of one that goes on time has moved on."""
    before, behind = diskstream.EntryID(1_714_521_602_000, 0), diskstream.EntryID(1_714_529_000_000, 0)
    words = ("--since", "2h", "--end", "1714521604000-0", "--speed", "max")
    for target in ("-", "stream:y", f"{empty_redis}?key=y", f"stream:y@{tmp_path / 'other'}"):
        monkeypatch.setattr(replay_verb, "_since", lambda _: behind)
        for more in ((), ("--dry-run",)):
            said = run("x", "--to", target, *words, *more, code=1).stderr
            assert "the range is reversed" in " ".join(said.split())
        assert not (tmp_path / "other").exists()
        monkeypatch.setattr(replay_verb, "_since", lambda _: before)
        run("x", "--to", target, *words)
        if target != "-":
            monkeypatch.setattr(replay_verb, "_since", lambda _: behind)
            assert "complete before" in run("x", "--to", target, *words).stdout


def test_a_redis_with_a_password(run: Run, redis_server: RedisServer, directory: Path) -> None:
    where = f"{redis_server.host}:{redis_server.port}/0"
    with redis.Redis(redis_server.host, redis_server.port) as client:
        client.flushall()
        client.config_set("requirepass", "secret")
        try:
            missing = run("x", "--to", f"redis://{where}?key=a%20b", "--speed", "max", code=1)
            assert "password" in missing.stderr
            told = run("x", "--to", f"redis://:secret@{where}?key=a%20b&socket_keepalive=1", "--speed", "max")
            assert "secret" not in told.output
            client.auth("secret")
            assert client.xlen("a b") == 6
            assert not any(b"secret" in value for key in client.keys("diskstream:*") for value in client.hvals(key))
        finally:
            client.config_set("requirepass", "")


@pytest.mark.parametrize(("condition", "said"), [("n~(a+)+", "must not repeat"), ("n", "no condition")])
def test_a_condition_that_cannot_be_is_wrong_usage(run: Run, condition: str, said: str) -> None:
    assert said in run("x", "--to", "stream:y", "--where", condition, code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x", "--to", "stream:x"), "never end"),
        (("nothing", "--to", "stream:y"), "no stream"),
        (("x", "--to", "redis://:secret@127.0.0.1:1/0?key=y"), "connection failed"),
    ],
)
def test_what_cannot_be_done_says_why(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words, code=1)
    assert said in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("x",),
        ("x", "--to", "y"),
        ("x", "--to", "stream:"),
        ("x", "--to", "stream:@"),
        ("x", "--to", "redis://localhost/0"),
        ("x", "--to", "redis://localhost/0?key="),
        ("x", "--to", "redis://localhost:70000/0?key=y"),
        ("x", "--to", "redis://localhost/first?key=y"),
        ("x", "--to", "redis://me:one/two@localhost/0?key=y"),
        ("x", "--to", "-", "--speed", "0"),
        ("x", "--to", "-", "--speed", "fast"),
        ("x", "--to", "-", "--rate", "0"),
        ("x", "--to", "-", "--speed", "1e-320"),
        ("x", "--to", "-", "--rate", "1e-320"),
        ("x", "--to", "-", "--start", "5", "--since", "1h"),
        ("x", "--to", "-", "--start", "noon"),
        ("x", "--to", "-", "--ids", "new"),
        ("x", "--to", "-", "--name", "again"),
    ],
)
def test_wrong_usage(run: Run, words: tuple[str, ...]) -> None:
    run(*words, code=2)


def test_a_reader_that_goes_away_ends_it_quietly(directory: Path) -> None:
    program = "from diskstream.cli import main; main()"
    with diskstream.open(directory) as store:
        store.stream("many").add_many([{"n": number, "pad": "." * 100} for number in range(20_000)])
    with subprocess.Popen(
        [sys.executable, "-c", program, "replay", "many", "--to", "-", "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert b"Traceback" not in running.stderr.read()
