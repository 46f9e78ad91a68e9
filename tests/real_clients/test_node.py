"""Clients of Node.js, ioredis and node-redis: what they make of the server's replies, and of Redis's."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients.servers import Target

HERE = Path(__file__).resolve().parent / "node"


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs the program {name}, which is not installed")
    return found


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts and the packages that they need, from the registry."""
    version = subprocess.run(
        [program("node"), "--version"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    if int(version.lstrip("v").split(".")[0]) < 20:
        pytest.skip(f"needs Node.js 20, which the clients ask for; installed is {version.strip()}")
    folder = tmp_path_factory.mktemp("node")
    for path in HERE.iterdir():
        shutil.copy(path, folder)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--loglevel=error"]
    command = [program("npm"), "install", *quiet, "--fetch-retries=0", "--fetch-timeout=20000"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("needs packages from the registry of npm, which does not answer")
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[:200]
        pytest.skip(f"needs packages from the registry of npm, which npm did not get: {why}")
    return folder


def told(installed: Path, script: str, *words: str) -> Any:
    """What a script prints at its end."""
    command = [program("node"), script, *words]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


EXPECTED = {
    "id": "1-1",
    "group": "OK",
    "given": ["1-1", "2-1", "3-1"],
    "acknowledged": 2,
    "pending": [["3-1", "ann"]],
    "claimed": ["3-1"],
    "woken": ["4-1"],
    "over": None,
    "length": 4,
    "error": "NOGROUP",
    "binary": "00ff0d0a",
}


@pytest.mark.parametrize("protocol", ["2", "3"])
@pytest.mark.parametrize("script", ["ioredis_worker.js", "node_redis_worker.js"])
def test_a_worker(installed: Path, target: Target, script: str, protocol: str) -> None:
    found = told(installed, script, target.url, protocol)
    assert found.pop("protocol") == int(protocol)
    assert found.pop("pipeline") == ["2-1", "ERR The ID ", 2]
    assert found.pop("transaction") == ["3-1", 3]
    assert found == EXPECTED
