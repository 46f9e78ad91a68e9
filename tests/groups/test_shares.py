"""That a share of the sequences fails where one of its processes does, and says why."""

from pathlib import Path

import pytest

from tests.conftest import RedisServer, _free_port
from tests.groups.shares import run_share


def test_what_a_process_says_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"ConnectionError: .*refused"):
        run_share(range(1, 3), RedisServer("127.0.0.1", _free_port(), tmp_path))
