"""What the tests of archiving share: what is in the Redis, what is in the store, and the verbs between them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.copying import StreamState, state_of

DATABASE = 9  # a server is shared with other tests
ROOT = Path(__file__).resolve().parent.parent.parent

Pairs = list[tuple[bytes, bytes]]
Entries = dict[str, Pairs]


@dataclass
class World:
    """A source and a store."""

    url: str
    client: Any
    directory: Path

    def fill(self, key: str, count: int, *, first: int = 1, size: int = 4) -> Entries:
        """Adds entries with the IDs `first`-1 and on. Returns them."""
        made: Entries = {}
        pipeline = self.client.pipeline(transaction=False)
        for number in range(first, first + count):
            fields = {b"number": b"%d" % number, b"odd" if number % 2 else b"even": b"v" * (number % size)}
            pipeline.xadd(key, fields, f"{number}-1")
            made[f"{number}-1"] = list(fields.items())
        pipeline.execute()
        return made

    def run(self, *words: str, code: int = 0, given: str | None = None) -> Result:
        """A verb, with what it printed."""
        result = CliRunner().invoke(main, list(words), input=given)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def archive(self, *words: str, key: str = "*", code: int = 0) -> dict[str, dict[str, Any]]:
        """`diskstream archive`; the report of each stream."""
        result = self.run(
            "archive", "--from", self.url, "--key", key, "--to", str(self.directory), "--json", *words, code=code
        )
        reports = [json.loads(line) for line in result.stdout.splitlines()]
        return {report["stream"]: report for report in reports}

    def refused(self, *words: str, key: str = "*") -> str:
        """What the whole verb says when it cannot be done."""
        result = self.run("archive", "--from", self.url, "--key", key, "--to", str(self.directory), *words, code=1)
        return " ".join(result.stderr.split())

    def source(self, key: str) -> Entries:
        """The entries of the source."""
        reply = self.client.execute_command("XRANGE", key, "-", "+", NEVER_DECODE=True)
        return {as_text(each): pairs(words) for each, words in reply}

    def copy(self, key: str) -> Entries:
        """The entries of the copy, each ID once."""
        with diskstream.open(self.directory, read_only=True) as store:
            found = [(str(entry.id), entry.pairs) for entry in store.stream(key).range()]
        assert len(dict(found)) == len(found)
        return dict(found)

    def state(self, key: str) -> StreamState:
        """All of the copy that is not entries."""
        with diskstream.open(self.directory, read_only=True) as store:
            return state_of(store.stream(key))

    def process(self, *words: str) -> "subprocess.Popen[str]":
        """The same verb in a process of its own."""
        command = [sys.executable, "-c", "from diskstream.cli import main; main()", "archive", "--from", self.url]
        return subprocess.Popen(
            [*command, "--to", str(self.directory), "--json", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


def as_text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


def pairs(words: Any) -> Pairs:
    if isinstance(words, dict):
        return list(words.items())
    return list(zip(words[::2], words[1::2], strict=True))


def raw(client: Any, *words: Any) -> Any:
    """A command's reply as it came."""
    client.set_response_callback(str(words[0]), lambda reply, **_options: reply)
    return client.execute_command(*words)
