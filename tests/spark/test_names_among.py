"""Names of fields as places among those that occur: the same names, and no work twice for those that are the same."""

import pytest

pa = pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from diskstream.spark.jobs.names_among import NamesAmong


def test_they_are_the_same_names() -> None:
    names = pa.array([b"a", b"", b"a", b"\xff", b"b"], pa.binary())
    found = NamesAmong().of(names)
    assert found.type == pa.dictionary(pa.int32(), pa.binary())
    assert found.to_pylist() == names.to_pylist()


def test_names_in_the_same_memory_are_looked_at_once() -> None:
    names, among = pa.array([b"a", b"b"] * 3, pa.binary()), NamesAmong()
    first = among.of(names)
    same = pa.Array.from_buffers(pa.binary(), len(names), names.buffers())
    assert among.of(same) is first


def test_part_of_them_or_others_are_others() -> None:
    names, among = pa.array([b"a", b"b"] * 3, pa.binary()), NamesAmong()
    among.of(names)
    assert among.of(names.slice(1)).to_pylist() == names.to_pylist()[1:]
    assert among.of(names.slice(0, 5)).to_pylist() == names.to_pylist()[:5]
    assert among.of(names).to_pylist() == names.to_pylist()
    for number in range(50):  # the memory of one is that of the next, if it is let go
        one = pa.array([f"{number}a".encode(), f"{number}b".encode()], pa.binary())
        assert among.of(one).to_pylist() == one.to_pylist()
        del one
