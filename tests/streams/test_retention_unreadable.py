"""A rule of retention that this version cannot read: it removes nothing, and neither does a trim beside it."""

from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.engine.log import StreamLog
from diskstream.retention import Trim
from diskstream.retention_rule import RULE
from tests.streams.layers import log_of
from tests.streams.test_retention import applied


def set_raw(store: Store, value: bytes) -> None:
    """Sets what no version of this code would set."""
    log = log_of(store)
    with log.locked():
        log.prepare()
        log.retry(lambda: log.native.change([("setting", RULE, value)], 1), held=True)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b'{"max_entries":1,"max_cost":7}', diskstream.NewerFormatError),
        (b'{"max_entries":0}', diskstream.CorruptionError),
        (b'{"max_entries":"1"}', diskstream.CorruptionError),
        (b'{"ref":"KEEPREF"}', diskstream.CorruptionError),
        (b"[1]", diskstream.CorruptionError),
        (b"\xff", diskstream.CorruptionError),
        (b"[" * 4000, diskstream.CorruptionError),
    ],
)
def test_nothing_goes_by_a_rule_that_cannot_be_read(tmp_path: Path, value: bytes, error: type[Exception]) -> None:
    with diskstream.open(tmp_path / "s", retention_interval_ms=1) as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(10)])
        set_raw(store, value)
        with pytest.raises(error):
            _ = stream.retention
        with pytest.raises(error):
            stream.apply_retention()
        with pytest.raises(error):  # what it says of trims nobody knows: they were done
            stream.trim(maxlen=1)
        with pytest.raises(error):
            stream.add({"n": 10}, maxlen=1)
        assert stream.info().retention is None
        assert "rule of retention" in (stream.info().retention_error or "")
        assert len(stream) == 10
        stream.set_retention(max_entries=9)
        assert applied(stream).removed <= 1
        assert len(stream) == 9, "a new rule puts it right"


def test_an_add_is_no_error_where_a_later_version_sets_a_rule_before_its_trim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was told of one would add the entry again."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(10)])
        really = Trim.fetch_ahead

        def and_then_it_is_set(trim: Trim, log: StreamLog) -> None:
            really(trim, log)
            set_raw(store, b'{"max_entries":1,"max_cost":7}')

        monkeypatch.setattr(Trim, "fetch_ahead", and_then_it_is_set)
        added = stream.add({"n": 10}, maxlen=1)
        assert (stream.last_id(), len(stream)) == (added, 11)
