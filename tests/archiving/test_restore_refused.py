"""A Redis that hangs up on what is put back, as it takes no value as long: what it says before it does is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import diskstream
from tests.archiving.world import World


@pytest.fixture
def short_words(second: redis.Redis, tmp_path: Path) -> Iterator[World]:
    """A server that takes values of up to 1 MiB, and a store with a longer one."""
    second.config_set("proto-max-bulk-len", "1mb")
    directory = tmp_path / "store"
    with diskstream.open(directory) as store:
        store.stream("s").add({"short": b"x" * 100})
        store.stream("s").add({"long": b"x" * 3_000_000})
    yield World(f"redis://127.0.0.1:{second.connection_pool.connection_kwargs['port']}/9", second, directory)
    second.config_set("proto-max-bulk-len", "512mb")


def test_a_value_that_a_server_does_not_take_is_told_with_what_to_do(short_words: World) -> None:
    """That the connection failed was all that was said, and to run it again, as often as one did."""
    words = ("restore", "--to", short_words.url, "--dir", str(short_words.directory), "--stream", "s")
    said = " ".join(short_words.run(*words, code=1).stderr.split())
    assert "it takes no value as long as one of these" in said
    assert "raise its proto-max-bulk-len" in said
    assert not short_words.client.exists("s")
    short_words.client.config_set("proto-max-bulk-len", "512mb")
    short_words.run(*words)
    assert short_words.client.xlen("s") == 2
