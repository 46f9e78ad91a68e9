"""`diskstream repair` of a stream of which segments are in object storage: what is there is not lost."""

from pathlib import Path

import pytest

import diskstream
from diskstream.cold import adopt, bring_back, move_out
from tests.cold.world import Row, filled, opened, rows, spoilt

_COLD = 6  # segments
_COLD_ENTRIES = 72


@pytest.fixture
def kept(tmp_path: Path, folder_place: str) -> list[Row]:
    """The entries of a stream in `store`, of which the first segments are cold."""
    with opened(tmp_path / "store") as store:
        stream = filled(store)
        stream.add({"n": "active"})
        assert len(move_out(stream, folder_place, before="80").segments) == _COLD
        return rows(stream)


def _folder(tmp_path: Path) -> Path:
    return tmp_path / "store" / "streams" / "x"


def _now(tmp_path: Path) -> list[Row]:
    with opened(tmp_path / "store", create=False) as store:
        assert store.verify(cold=True).ok
        return rows(store.stream("x"))


def test_a_repair_of_what_is_sound_leaves_cold_segments_on_the_list(tmp_path: Path, kept: list[Row]) -> None:
    for dry_run in (True, False):
        assert [report.actions for report in diskstream.repair(tmp_path / "store", dry_run=dry_run)] == [[]]
    assert _now(tmp_path) == kept


def test_a_repair_of_another_segment_leaves_them_too(tmp_path: Path, kept: list[Row]) -> None:
    path = max(_folder(tmp_path).glob("*.seg"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (report,) = diskstream.repair(tmp_path / "store")
    assert not report.losses
    assert _now(tmp_path) == kept


def test_a_log_made_anew_from_the_files_lists_them(tmp_path: Path, kept: list[Row]) -> None:
    """Nothing but the stubs speaks of them then."""
    for path in sorted(_folder(tmp_path).iterdir()):
        if path.suffix in (".log", ".state"):
            path.unlink()
        elif path.suffix == ".seg":  # the copies of the snapshot go
            path.write_bytes(path.read_bytes()[:-300] + bytes(300))
    (report,) = diskstream.repair(tmp_path / "store")
    assert not report.failed
    with opened(tmp_path / "store", create=False) as store:
        assert rows(store.stream("x"))[:_COLD_ENTRIES] == kept[:_COLD_ENTRIES]


def test_a_damaged_file_whose_bytes_are_elsewhere_is_put_aside(tmp_path: Path, kept: list[Row]) -> None:
    """A move was killed between the stub and the removal of the file, which then rotted."""
    stub = min(_folder(tmp_path).glob("*.cold"))
    content = stub.read_bytes()
    with opened(tmp_path / "store") as store:
        bring_back(store.stream("x"), end="1")
    path = stub.with_suffix(".seg")
    path.write_bytes(b"rot" + path.read_bytes()[3:])
    stub.write_bytes(content)
    (report,) = diskstream.repair(tmp_path / "store")
    assert not report.losses
    assert _now(tmp_path) == kept


def test_a_damaged_stub_is_told_and_can_be_made_anew(tmp_path: Path, kept: list[Row], folder_place: str) -> None:
    stub = min(_folder(tmp_path).glob("*.cold"))
    stub.write_bytes(spoilt(stub.read_bytes()))
    for _ in range(2):
        (report,) = diskstream.repair(tmp_path / "store")
        assert "cold adopt" in report.failed
        assert not report.losses
    with opened(tmp_path / "store") as store:
        assert len(adopt(store.stream("x"), folder_place).adopted) == 1
    assert _now(tmp_path) == kept
