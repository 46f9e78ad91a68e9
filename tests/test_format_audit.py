"""Audit files are what docs/format/audit.md says: what stood in the log stands in them, and any damage is seen."""

from itertools import pairwise
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError
from tests.read_twice import opened
from tests.slow_reader import FormatError, SlowStore, layouts
from tests.slow_reader.audit import Audit
from tests.test_format_groups import Workload

NOT_KEPT = {layouts.RECORD_TAGS[name] for name in ("seen", "message", "windows", "commit", "setting")}


@pytest.mark.parametrize("level", [0, 3])
def test_the_frames_of_groups_of_a_log_are_those_of_its_audit_file(tmp_path: Path, level: int) -> None:
    work = Workload(5)
    kept = 0
    for _ in range(6):
        with opened(tmp_path, clock=work.clock, compression_level=level) as store:
            work.run(store, 200)
            said = list(store.stream("a").audit())
        slow = SlowStore(tmp_path).stream(b"a")
        stood = {number: slow.rolled(number)[0] for number, _ in pairwise(sorted(slow.logs))}
        with opened(tmp_path, clock=work.clock, compression_level=level) as store:
            store.stream("a").seal()
            assert [it for it in store.stream("a").audit() if it in set(said)] == said
        for number, frames in stood.items():
            path = slow.directory / f"{number:08d}.audit"
            wanted = [(it.lsn, it.time, it.payload) for it in frames if it.kind == layouts.GROUPS]
            if not path.exists():
                continue  # dropped, with all before it
            audit = Audit(path)
            kept += len(audit.frames)
            assert audit.uuid == slow.log.uuid
            there = set(audit.frames)
            assert there <= set(wanted)
            assert {records[0] for lsn, time, records in wanted if (lsn, time, records) not in there} <= NOT_KEPT
            assert set(audit.groups.values()) <= {b"g0", b"g1", b"g2"}
    assert kept > 100


def test_every_flipped_byte_is_seen_by_both_readers_and_by_verify(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        stream = store.stream("a")
        group = stream.group("g", start="0")
        stream.add_many([{"k": "v"}] * 20)
        group.ack(*[entry.id for entry in group.consumer("c").read(count=15)])
        stream.seal()
    path = tmp_path / "streams" / "a" / "00000001.audit"
    whole = path.read_bytes()
    with diskstream.open(tmp_path, read_only=True) as store:
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            with pytest.raises(FormatError):
                Audit(path)
            with pytest.raises((CorruptionError, diskstream.FormatError)) as caught:
                list(store.stream("a").audit())
            assert str(path) in str(caught.value)
            if at % 40 == 0:
                assert [problem.path for problem in store.verify().problems] == [path]
        path.write_bytes(whole)
        assert store.verify().ok
