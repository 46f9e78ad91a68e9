"""What a program adds as late as its interpreter ends, from a finalizer: no thread can be started then, and no error of
the core be made on the way.
"""

import sys
import threading
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.keeper import joined
from diskstream.engine.log import StreamLog
from tests.engine.children import LIMIT_S, child, until
from tests.engine.ending import adds_at_the_end


def _waits_so_far(pid: int) -> int:
    """How often a process has slept."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.parametrize("opened", ["before", "then"])
@pytest.mark.parametrize("lock", ["free", "held"])
def test_an_entry_is_added_and_the_store_closed(tmp_path: Path, opened: str, lock: str) -> None:
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("a")
        stream.add({"n": "first"})
        with child(adds_at_the_end, tmp_path / "s", opened) as other:
            assert other.hear() == "ready"

            def hold(log: StreamLog) -> None:
                with log.locked():
                    begin = _waits_so_far(other.pid)
                    other.tell()
                    until(lambda: _waits_so_far(other.pid) >= begin + 4)  # twice as long as it waits without a look

            if lock == "held":
                stream._use(hold, None)
            else:
                other.tell()
            said = other.rest()
            assert [line.split()[0] for line in said] == ["added", "closed"], said
            assert other.wait(LIMIT_S) == 0
        assert [entry["n"] for entry in stream.range()][-1] == b"last"


def test_who_closes_then_waits_for_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.13 on a thread that takes no step any more is never said to have ended, and a join hangs."""
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "is_finalizing", lambda: True)
        joined(thread)
        assert thread.is_alive()
    ends.set()
    joined(thread)
    assert not thread.is_alive()


def test_nor_does_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joins: list[object] = []
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("a")
        stream.add({"n": "1"})
        stream.set_retention(max_entries=5)  # which has a thread of its own
        with monkeypatch.context() as patched:
            patched.setattr(sys, "is_finalizing", lambda: True)
            patched.setattr(threading.Thread, "join", lambda thread, _timeout=None: joins.append(thread))
            store.close()
    assert joins == []
