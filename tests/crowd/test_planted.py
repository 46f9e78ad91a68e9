"""The checker of a crowd is itself tried: each mistake that is planted, in what was noted or in the store, is found."""

import contextlib
import copy
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID
from tests.crowd.checker import check
from tests.crowd.journal import Op, ids_of, packed, read_journals, shown
from tests.crowd.part import JOURNALS, STORE
from tests.crowd.play import perform, prepare, survey
from tests.crowd.record import stream_of
from tests.crowd.scene import GROUPS, Scene, draw, row_of
from tests.engine.sample import fast_directory

# Nothing is removed in it, so that each entry must be there; and all its kinds of work come to something in this time.
SCENE = replace(
    draw(1, "os", 2.0, small=True), removal="none", rule=False, cold=False, servers=0, ways=("store",), stop_s=0.1
)

Ops = list[Op]


# What the plants below need: on a busy machine little is done in two seconds, and then more time is given.
NEEDED = {("range", 5, "r"), ("follow", 1, "f"), ("backlog", 1, "c"), ("new", 1, "c"), ("new", 1, "w"), ("ack", 1, "c")}
NEEDED |= {("add", 2, "p"), ("read backup", 0, "backup"), ("verify", 0, "verifier")}
SECONDS = (2.0, 4.0, 8.0, 16.0, 32.0)


def has_needed(ops: Ops) -> bool:
    return all(len(list(matching(ops, *each))) >= 2 for each in NEEDED) and bool(acknowledged(ops))


def acknowledged(ops: Ops) -> list[int]:
    """Entries that every group has acknowledged, but for the oldest two of all."""
    added = (op for op in ops if op.word == "add" and stream_of(op) == "x")
    oldest = sorted(number for op in added for number in ids_of(op.result.get("ids", "")))[:2]
    begun = [
        {
            number
            for op in ops
            if op.word == "ack" and op.about["group"] == group and op.role[0] == "c"
            for number in ids_of(op.about["ids"])
        }
        for group in GROUPS["x"]
    ]
    return sorted(set.intersection(*begun) - set(oldest))


@pytest.fixture(scope="module")
def scene_played() -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        root = Path()
        for seconds in SECONDS:
            root = stack.enter_context(fast_directory())
            scene = replace(SCENE, seconds=seconds)
            prepare(scene, root)
            perform(scene, root)
            if has_needed(read_journals(root / JOURNALS)):
                break
        yield root


@pytest.fixture(scope="module")
def noted(scene_played: Path) -> Ops:
    return surveyed(scene_played, SCENE)


def surveyed(played: Path, scene: Scene, plant: Callable[[Path], None] = lambda _: None) -> Ops:
    with fast_directory() as directory:
        shutil.copytree(played, directory / "copy")
        plant(directory / "copy")
        survey(scene, directory / "copy")
        return read_journals(directory / "copy" / JOURNALS)


def repacked(numbers: list[int]) -> str:
    return packed(EntryID(shown(number)) for number in numbers)


def matching(ops: Ops, word: str, least: int = 0, role: str = "") -> Iterator[Op]:
    """Operations that have returned, and found so many entries."""
    for op in ops:
        found = op.result.get("ids", op.about.get("ids", "")).split()
        if op.word == word and not op.cut and op.role.startswith(role) and len(found) >= least:
            yield op


def find(ops: Ops, word: str, least: int = 0, role: str = "", at: int = 0) -> Op:
    """One of these."""
    return list(matching(ops, word, least, role))[at]


def state(ops: Ops, word: str = "survey", stream: str = "x", at: int = 0) -> dict[str, Any]:
    """What a survey, or a backup, found of a stream."""
    found: dict[str, Any] = find(ops, word, at=at).result["streams"][stream]
    return found


def drop(found: dict[str, Any], at: int) -> None:
    """Leaves an entry out of what was found."""
    ids, keys = ids_of(found["ids"]), found["keys"].split()
    del ids[at], keys[at]
    found["ids"], found["keys"] = repacked(ids), " ".join(keys)
    if "length" in found:
        found["length"] -= 1
    if "deliveries" in found:
        del found["deliveries"][at]


def later(ops: Ops, op: Op, word: str, **result: object) -> None:
    """Adds a delivery of the entries of `op`, when everything else is over."""
    end = max(other.begin for other in ops) + 1000
    about = {**op.about, "block": None, "stream": "x"}
    ops.append(Op("last", 0, end, word, about, end + 1, end + 1, {**op.result, **result}))


# --- in what was noted ------------------------------------------------------------------------------------------------


def an_entry_twice(ops: Ops) -> None:
    for word in ("survey", "drained"):
        found = state(ops, word)
        ids, keys = ids_of(found["ids"]), found["keys"].split()
        found["ids"], found["keys"] = repacked([*ids, ids[-1] + 1]), " ".join([*keys, keys[3]])
        found["length"] += 1


def an_entry_gone(ops: Ops) -> None:
    drop(state(ops), 5)


def an_entry_of_nobody(ops: Ops) -> None:
    key = state(ops)["keys"].split()[7]
    ops[:] = [op for op in ops if key not in op.about.get("keys", "").split()]


def an_entry_changed(ops: Ops) -> None:
    op = find(ops, "range", 3)
    keys = op.result["keys"].split()
    op.result["keys"] = " ".join([keys[1], keys[0], *keys[2:]])


def an_entry_not_added_to_the_end(ops: Ops) -> None:
    # One that only who added it knows of: others would have seen one of those that are there before it was added.
    last = find(ops, "add", at=-1)
    first = min(number for op in matching(ops, "add", 1) for number in ids_of(op.result["ids"]))
    end = max(other.begin for other in ops) + 1000
    about = {**last.about, "keys": "p9.0.0"}
    ops.append(Op("p9", 0, end, "add", about, end + 1, end + 1, {**last.result, "ids": repacked([first - 1])}))


def half_a_batch(ops: Ops) -> None:
    batch = next(op for op in ops if op.word == "add" and len(op.about["keys"].split()) > 1 and not op.cut)
    last = ids_of(batch.result["ids"])[-1]
    for op in ops:
        for found in [op.result, *op.result.get("streams", {}).values()]:
            if "keys" in found and last in (ids := ids_of(found["ids"])):
                drop(found, ids.index(last))
    batch.end, batch.result = None, {}


def something_within_a_batch(ops: Ops) -> None:
    """The last entry of a batch and the one behind it change places, for everybody."""
    found = state(ops)
    key_of = dict(zip(ids_of(found["ids"]), found["keys"].split(), strict=True))
    batch = next(op for op in ops if op.word == "add" and len(op.about["keys"].split()) > 1 and not op.cut)
    last = ids_of(batch.result["ids"])[-1]
    behind = next(number for number in key_of if number > last)
    ids, keys = {last: behind, behind: last}, {key_of[last]: key_of[behind], key_of[behind]: key_of[last]}
    for op in ops:
        if op.word in ("add", "send") and not op.cut:
            op.result["ids"] = repacked([ids.get(number, number) for number in ids_of(op.result["ids"])])
        for seen in [op.result, *op.result.get("streams", {}).values()]:
            if "keys" in seen:
                seen["keys"] = " ".join(keys.get(key, key) for key in seen["keys"].split())


def more_added_than_anybody_did(ops: Ops) -> None:
    state(ops)["added"] += 1000


def an_entry_passed_over(ops: Ops) -> None:
    drop(find(ops, "range", 3).result, 1)


def an_entry_not_seen(ops: Ops) -> None:
    op = find(ops, "range", 5, at=-1)
    op.about["count"] = 1000
    for _ in range(4):
        drop(op.result, -1)
    op.begin = op.latest = op.end = state_time(ops)


def state_time(ops: Ops) -> int:
    return find(ops, "survey").begin


def an_entry_followed_twice(ops: Ops) -> None:
    first, second = find(ops, "follow", 1), find(ops, "follow", 1, at=1)
    second.result = first.result
    second.about = first.about


def a_removed_entry_that_is_there(ops: Ops) -> None:
    begin = ops[len(ops) // 2].begin
    about = {"ids": repacked(ids_of(state(ops)["ids"])[:1]), "ref": "KEEPREF"}
    ops.append(Op("trimmer", 0, begin, "delete", about, begin + 1, begin + 1, {"answers": [1]}))


def a_backup_with_a_hole(ops: Ops) -> None:
    backups = [op.result["streams"]["x"] for op in matching(ops, "read backup")]
    drop(max(backups, key=lambda found: len(found["keys"])), 3)  # the first one may have been made before anything was


def a_backup_without_its_end(ops: Ops) -> None:
    made, read = find(ops, "back up", at=-1), find(ops, "read backup", at=-1)
    made.result["name"] = read.about["name"]
    made.begin = made.end = made.latest = state_time(ops)


def a_backup_that_forgot_an_acknowledgement(ops: Ops) -> None:
    acked = find(ops, "ack", 1, "c")
    found = state(ops, "read backup", at=-1)["groups"][acked.about["group"]]
    found["pending"], found["count"] = acked.about["ids"].partition(" ")[0], 1


def a_backup_with_damage(ops: Ops) -> None:
    find(ops, "read backup").result["findings"] = ["rot"]


def new_twice(ops: Ops) -> None:
    later(ops, find(ops, "new", 1, "c"), "new")


def again_after_its_end(ops: Ops) -> None:
    acked = find(ops, "ack", 1, "c")
    given = next(op for op in ops if op.word == "new" and acked.about["ids"] == op.result.get("ids"))
    later(ops, given, "autoclaim", deliveries=[1] * len(given.result["deliveries"]))


def acknowledged_twice(ops: Ops) -> None:
    acked = find(ops, "ack", 1, "c")
    ops.append(replace(acked, begin=acked.begin + 1))


def lost_by_the_group(ops: Ops) -> None:
    acked = find(ops, "ack", 1, "c")
    ops[:] = [op for op in ops if op.word != "ack" or op.about["ids"] != acked.about["ids"]]


def acknowledged_and_pending(ops: Ops) -> None:
    acked = next(op for op in ops if op.word == "ack" and op.role[0] == "c" and op.result["count"] == 1)
    found = state(ops)["groups"][acked.about["group"]]
    found["pending"] = repacked(sorted([*ids_of(found["pending"]), *ids_of(acked.about["ids"])]))
    found["owners"].append("c0")
    found["deliveries"].append(1)
    found["count"] += 1


def a_wrong_lag(ops: Ops) -> None:
    state(ops)["groups"]["g"]["lag"] += 1


def delivered_too_often(ops: Ops) -> None:
    find(ops, "backlog", 1, "c").result["deliveries"][0] = 1000


def in_the_backlog_of_another(ops: Ops) -> None:
    op = find(ops, "backlog", 1, "c")
    ops[:] = [other for other in ops if other is op or other.role != op.role or other.begin > op.begin]


def pending_when_drained(ops: Ops) -> None:
    state(ops, "drained")["groups"]["g"]["count"] = 3


def a_fault_that_the_verifier_found(ops: Ops) -> None:
    find(ops, "verify").result["problems"] = ["rot"]


def somebody_who_raised(ops: Ops) -> None:
    ops.append(Op("p0", 0, ops[-1].begin + 1, "failed", {"how": "Traceback"}))


def a_wake_up_lost(ops: Ops) -> None:
    op = find(ops, "new", 1, "w")
    assert op.end is not None
    op.end = op.latest = op.end + 15 * 10**9


def an_entry_followed_late(ops: Ops) -> None:
    op = find(ops, "follow", 1)
    assert op.end is not None
    op.end = op.latest = op.end + 15 * 10**9


def a_call_that_hung(ops: Ops) -> None:
    op = find(ops, "ack", 1, "c")
    op.end, op.latest = None, op.begin + 40 * 10**9


def audit(ops: Ops, action: str) -> tuple[list[list[Any]], int]:
    """The audit, and where it says first that something was done."""
    rows: list[list[Any]] = find(ops, "survey").result["audit"]["x"]
    return rows, next(at for at, row in enumerate(rows) if row[0] == action)


def a_delivery_that_the_audit_forgot(ops: Ops) -> None:
    rows, at = audit(ops, "deliver")
    del rows[at]


def a_delivery_that_the_audit_made_up(ops: Ops) -> None:
    rows, at = audit(ops, "deliver")
    rows.append(rows[at])


def an_acknowledgement_that_the_audit_forgot(ops: Ops) -> None:
    rows, at = audit(ops, "ack")
    del rows[at]


def an_owner_that_the_audit_mistook(ops: Ops) -> None:
    rows, at = audit(ops, "ack")
    rows[at][5] = "nobody"


NOTED: dict[Callable[[Ops], None], str] = {
    an_entry_twice: "is there twice",
    an_entry_gone: "is gone, and nobody removed it",
    an_entry_of_nobody: "was added by nobody",
    an_entry_changed: "to another",
    an_entry_not_added_to_the_end: "was begun",
    half_a_batch: "entries of a batch",
    something_within_a_batch: "something is within the batch",
    more_added_than_anybody_did: "entries were added in the end, it says",
    an_entry_passed_over: "was passed over",
    an_entry_not_seen: "was there, and not seen",
    an_entry_followed_twice: "came again",
    a_removed_entry_that_is_there: "was removed, and is there",
    a_backup_with_a_hole: "is not in it, and what came later is",
    a_backup_without_its_end: "is not in it",
    a_backup_that_forgot_an_acknowledgement: "is pending, and had been acknowledged",
    a_backup_with_damage: "rot",
    new_twice: "was new twice",
    again_after_its_end: "was acknowledged, and given out again",
    acknowledged_twice: "was acknowledged twice",
    lost_by_the_group: "is lost: nobody acknowledged it",
    acknowledged_and_pending: "was acknowledged, and is pending",
    a_wrong_lag: "the lag is",
    delivered_too_often: "was delivered 1000 times before",
    in_the_backlog_of_another: "is in the backlog of somebody who was never given it",
    pending_when_drained: "drained, 3 are pending",
    a_delivery_that_the_audit_forgot: "does not know of",
    a_delivery_that_the_audit_made_up: ": deliver of",
    an_acknowledgement_that_the_audit_forgot: "ends with",
    an_owner_that_the_audit_mistook: "says that nobody had it",
    a_fault_that_the_verifier_found: "rot",
    somebody_who_raised: "Traceback",
    a_wake_up_lost: "waited for",
    an_entry_followed_late: "waited for",
    a_call_that_hung: "took 40000 ms",
}


def test_without_a_mistake_nothing_is_found(noted: Ops) -> None:
    assert check(noted).faults == []


@pytest.mark.parametrize("plant", NOTED, ids=[plant.__name__ for plant in NOTED])
def test_a_mistake_in_what_was_noted_is_found(noted: Ops, plant: Callable[[Ops], None]) -> None:
    changed = copy.deepcopy(noted)
    plant(changed)
    faults = check(sorted(changed, key=lambda op: op.begin), told=10**6).faults
    assert any(NOTED[plant] in fault for fault in faults), faults


def test_a_trim_by_length_may_pass_over_what_is_not_acknowledged_and_take_something_newer(noted: Ops) -> None:
    ops = copy.deepcopy(noted)
    number, ids = acknowledged(ops)[0], ids_of(state(ops)["ids"])
    end = find(ops, "survey").begin
    for word in ("survey", "drained"):
        drop(state(ops, word), ids_of(state(ops, word)["ids"]).index(number))
    assert any("is gone, and nobody removed it" in fault for fault in check(ops).faults)

    about = {"keep": len(ids) - 1, "ref": "ACKED", "exact": True}
    ops.append(Op("trimmer", 9, end - 2, "trim", about, end - 1, end - 1, {"count": 1}))
    assert check(sorted(ops, key=lambda op: op.begin)).faults == []


# --- in the store -----------------------------------------------------------------------------------------------------


def an_entry_deleted(stream: diskstream.Stream) -> None:
    stream.delete(next(iter(stream)).id)


def an_entry_slipped_in(stream: diskstream.Stream) -> None:
    stream.add(row_of("p0.0.999999"))


def an_entry_added_again(stream: diskstream.Stream) -> None:
    stream.add(next(iter(stream)).pairs)


def a_group_set_back(stream: diskstream.Stream) -> None:
    stream.group("g", create=False).set_id("0")


def a_group_set_ahead(stream: diskstream.Stream) -> None:
    stream.add(row_of("p0.0.999999"))
    stream.group("g", create=False).set_id("$")


STORED: dict[Callable[[diskstream.Stream], None], str] = {
    an_entry_deleted: "is gone, and nobody removed it",
    an_entry_slipped_in: "was added by nobody",
    an_entry_added_again: "is there twice",
    a_group_set_back: "was acknowledged twice",
    a_group_set_ahead: "is lost: nobody acknowledged it",
}


@pytest.mark.parametrize("plant", STORED, ids=[plant.__name__ for plant in STORED])
def test_a_mistake_in_the_store_is_found(scene_played: Path, plant: Callable[[diskstream.Stream], None]) -> None:
    def planted(root: Path) -> None:
        with diskstream.open(root / STORE) as store:
            plant(store.stream("x"))

    faults = check(surveyed(scene_played, SCENE, planted)).faults
    assert any(STORED[plant] in fault for fault in faults), faults
