"""What many tests share: an open store, the folder of shared material, a real Redis server to compare with."""

import functools
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

import diskstream
from diskstream.engine import opening
from diskstream.engine.keeper import Keeper

ROOT = Path(__file__).resolve().parent.parent
SPARK: Final = ROOT / "tests/spark"
OF_LONG_TESTS: Final = (
    "tests/crash/test_power_cut.py",
    "tests/engine/test_damage.py",
    "tests/groups/test_against_model.py",
    "tests/groups/test_against_redis.py",
)

# A busy machine must not fail a property: no deadline for each example. In CI the same examples come every time, so
# that a red run means the change, and the blob that reproduces a failure is printed.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


class _Units(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """What a process of tests is given: a file, a test of a file that takes long, or all that share one Spark."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return nodeid if file in OF_LONG_TESTS else _shared_spark(file) or file


@functools.cache
def _shared_spark(file: str) -> str:
    """Which of the two that take seconds to start the tests of a file share with those of others, the session or the
    cluster: each of them starts in one process then. Empty where they start none."""
    if SPARK not in (ROOT / file).parents:
        return ""
    text = (ROOT / file).read_text(encoding="utf-8")
    if "cluster: Cluster" in text:
        return "the cluster"
    return "the session" if 'spark: "SparkSession"' in text else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return _Units(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes run them, Spark's come first and then the long ones, lest one is at work at the end."""
    if not hasattr(config, "workerinput"):
        return
    longest: dict[Path, float] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0), marker.args[0] if marker else 0)
    items.sort(key=lambda item: (SPARK not in item.path.parents, -longest[item.path]))


@pytest.fixture(scope="session", autouse=True)
def _priority_stays() -> Iterator[None]:
    """The command `backup` gives its whole process the lowest priority, which here would be that of all later tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.nice", lambda step: step)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    """A new store with the default options."""
    with diskstream.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def no_keepers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens behind the back of a test: stores opened in this process flush, seal and clean up only when told.

    For what holds between two looks of a keeper: that a file is still there, or that nobody has a log in hand.
    """
    monkeypatch.setattr(Keeper, "begin", lambda _: None)


@pytest.fixture
def logs_opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where logs of streams were opened in this process, from the beginning of the test on."""
    found: list[Path] = []
    open_log = opening.open_log

    def note(directory: Path, *arguments: Any, **named: Any) -> opening.Opened:
        found.append(directory)
        return open_log(directory, *arguments, **named)

    monkeypatch.setattr(opening, "open_log", note)
    return found


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder `shared` beside the repository: real data and reference material."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared beside the repository, which is not there")
    return folder


@dataclass(frozen=True)
class RedisServer:
    """A running server of our own: connect to `host` and `port`; its files are below `directory`."""

    host: str
    port: int
    directory: Path


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server in memory on a free port of the loopback interface.

    Other settings are given as an indirect parameter:
    `@pytest.mark.parametrize("redis_server", [{"appendonly": "yes", "appendfsync": "always"}], indirect=True)`.
    """
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs the program redis-server, which is not installed")
    settings: dict[str, str] = {"appendonly": "no", "save": "", **getattr(request, "param", {})}
    directory = tmp_path_factory.mktemp("redis")
    process, port = _start_redis(program, directory, settings)
    try:
        yield RedisServer("127.0.0.1", port, directory)
    finally:
        _stop(process)


def _start_redis(program: str, directory: Path, settings: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """Start a server. Another program may take the free port before the server does: then with the next port."""
    output: list[str] = []
    for _ in range(5):
        port = _free_port()
        options = {"bind": "127.0.0.1", "port": str(port), "dir": str(directory), "daemonize": "no", **settings}
        command = [program, *(word for name, value in options.items() for word in (f"--{name}", value))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if _wait_until_ready(process, output):
            return process, port
        _stop(process)
    pytest.fail("redis-server did not start:\n" + "".join(output), pytrace=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[str], output: list[str]) -> bool:
    """Whether the server says that it accepts connections. Its output is read to its end, lest the pipe fill up."""
    settled = threading.Event()
    ready = threading.Event()

    def follow() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                output.append(line)
                if "Ready to accept connections" in line:
                    ready.set()
                    settled.set()
        settled.set()

    threading.Thread(target=follow, name="redis-server output", daemon=True).start()
    settled.wait(timeout=30)
    return ready.is_set()


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
