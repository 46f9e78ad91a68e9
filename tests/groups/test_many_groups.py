"""One group among many: what is said of it is its own, and what every group was given is all that a trim may take."""

import pytest

from diskstream import NoGroupError, Store
from tests.streams.layers import ids


def test_what_is_said_of_one_group_is_its_own(store: Store) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": 1}, {"n": 2}, {"n": 3}], ids=["1-1", "2-1", "3-1"])
    names = [f"g{number}" for number in (3, 1, 2, 0)]  # made in another order than that of their names
    for name in names:
        stream.create_group(name, start="0")
    for count, name in enumerate(names[:3], 1):
        stream.group(name, create=False).consumer("c").read(count=count)
    found = {name: stream.group(name, create=False) for name in names}
    assert [(info.name.decode(), info.pending) for info in stream.groups()] == [
        (name, found[name].info().pending) for name in sorted(names)
    ]
    assert [found[name].info().lag for name in names] == [2, 1, 0, 3]
    assert [found[name].pending().total for name in names] == [1, 2, 3, 0]
    found["g1"].destroy()
    with pytest.raises(NoGroupError, match="g1"):
        found["g1"].info()


def test_a_trim_with_acked_spares_what_one_group_of_many_was_not_given_or_holds(store: Store) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": 1}, {"n": 2}, {"n": 3}], ids=["1-1", "2-1", "3-1"])
    for number in range(20):
        group = stream.group(f"g{number}", start="0")
        assert stream.trim(maxlen=0, ref="ACKED") == 0  # the last one made was given nothing
        found = group.consumer("c").read(count=2)
        group.ack(*[entry.id for entry in (found[1:] if number == 7 else found)])
    assert stream.trim(maxlen=0, ref="ACKED") == 1  # 2-1: of all, one group still holds the first
    assert ids(stream.range()) == ["1-1", "3-1"]
    stream.group("g7").ack("1-1")
    assert stream.trim(maxlen=0, ref="ACKED") == 1
    assert ids(stream.range()) == ["3-1"]
