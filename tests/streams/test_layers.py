"""The layered stream that other tests read: it must have what they rely on."""

from diskstream import Store
from tests.streams.layers import kinds, layered, log_of, rows


def test_it_has_every_kind_of_segment_with_gone_entries_in_each(small: Store) -> None:
    layered(small)
    assert kinds(small) == sorted(kinds(small), key=["compacted", "sealed", "rows", "active"].index)
    assert {
        kind: kinds(small).count(kind) >= least
        for kind, least in {"compacted": 2, "sealed": 2, "rows": 2, "active": 1}.items()
    } == dict.fromkeys(["compacted", "sealed", "rows", "active"], True)
    views = log_of(small).segments.views()
    assert views[0].trimmed > 0
    assert all(0 < view.live < view.entries for view in views if view.generation == 0)
    active = log_of(small).native.active_view()
    assert 0 < active.live < active.entries


def test_it_holds_what_the_list_beside_it_says(small: Store) -> None:
    made = layered(small)
    assert rows(made.stream.range()) == made.live
    assert len(made.stream) == len(made.live) > 250
