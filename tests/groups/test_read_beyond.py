"""A group may say that it has read more entries than were ever added: what makes a copy of it takes that over."""

import diskstream
from diskstream.copying import copy_stream, state_of
from diskstream.mirroring import mirror_groups


def _counted_too_high(stream: diskstream.Stream) -> diskstream.Group:
    """A group that was said to have read all, begins in the midst, and reads on: as in Redis, it counts further."""
    stream.add_many([{"n": n} for n in range(10)], ids=[f"{n}-1" for n in range(1, 11)])
    group = stream.group("g", start="5-1", entries_read=10)
    stream.delete("2-1")
    group.consumer("c").read(count=3)
    assert (group.info().entries_read, group.info().lag) == (13, -3)
    return group


def test_a_copy_has_read_as_much(store: diskstream.Store) -> None:
    """It had read what was added, 10, and so lagged by another number than its source."""
    group = _counted_too_high(store.stream("s"))
    copy_stream(store.stream("s"), store.stream("copy"))
    assert store.stream("copy").group("g", create=False).info() == group.info()


def test_a_mirrored_group_is_the_same_at_once(store: diskstream.Store) -> None:
    """It never became so, and each look of an archiver that follows wrote to the log."""
    group = _counted_too_high(store.stream("s"))
    wanted = state_of(store.stream("s")).groups
    mirror = store.stream("mirror")
    mirror.add_many([{"n": n} for n in range(10)], ids=[f"{n}-1" for n in range(1, 11)])
    mirror.group("g", start="1-1")
    assert mirror_groups(mirror, wanted)
    assert mirror.group("g", create=False).info().entries_read == group.info().entries_read
    assert not mirror_groups(mirror, wanted)
