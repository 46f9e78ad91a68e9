"""Those who keep house meanwhile: a trimmer, a sealer, a mover to object storage, a backup, a verifier."""

from collections.abc import Callable

import diskstream
from diskstream import Store
from diskstream.backups import Backup, Repository, check_backup, find_backup, make_backup, prune, superfluous
from diskstream.backups.checking import Seen
from diskstream.cold import bring_back, move_out
from tests.crowd.journal import packed
from tests.crowd.part import BACKUPS, COLD, STORE, Part
from tests.crowd.scene import GROUPS, key_of, row_of

__all__ = ["back_up", "contents", "move", "read_backup", "seal", "shuffle_names", "trim", "verify"]

_KEPT_BACKUPS = 2


def _refs(part: Part) -> str:
    removal = part.scene.removal
    return part.chance.choice(("KEEPREF", "DELREF", "ACKED")) if removal == "mixed" else removal


def trim(part: Part) -> Callable[[], None]:
    """Trims to a length or below an ID, deletes entries here and there, and has a rule of retention do it too."""
    chance, stream, keep = part.chance, part.stream, 300 if part.scene.producers < 16 else 3000
    ruled = not part.scene.rule

    def step() -> None:
        nonlocal ruled
        ref = _refs(part)
        if not ruled:
            with part.journal.op("rule", keep=2 * keep, ref=ref):
                stream.set_retention(max_entries=2 * keep, ref=ref)
            ruled = True
        draw = chance.random()
        if draw < 0.4:
            approximate = ref == "KEEPREF" and chance.random() < 0.5
            most = keep + chance.randrange(keep)
            with part.journal.op("trim", keep=most, ref=ref, exact=not approximate) as done:
                done["count"] = stream.trim(maxlen=most, ref=ref, approximate=approximate)
        else:
            entries = list(stream.range(count=1 + chance.randrange(60)))
            if not entries:
                return
            if draw < 0.7:
                with part.journal.op("trim", below=str(entries[-1].id), ref=ref, exact=True) as done:
                    done["count"] = stream.trim(minid=entries[-1].id, ref=ref)
            else:
                ids = chance.sample([entry.id for entry in entries], 1 + len(entries) // 8)
                with part.journal.op("delete", ids=packed(ids), ref=ref) as done:
                    done["answers"] = stream.delete_entries(*ids, ref=ref)
        part.rest(0.3)

    return step


def seal(part: Part) -> Callable[[], None]:
    """Rolls, seals and compacts."""

    def step() -> None:
        name = part.chance.choice(("x", "x", "quiet"))
        if part.chance.random() < 0.7:
            with part.journal.op("seal"):
                part.store.seal(name)
        else:
            with part.journal.op("compact"):
                part.store.compact(name)
        part.rest(0.3)

    return step


def move(part: Part) -> Callable[[], None]:
    """Moves sealed segments out, and brings some back."""

    def step() -> None:
        place = (part.root / COLD).as_uri()
        if part.chance.random() < 0.7:
            with part.journal.op("move out") as done:
                done["segments"] = len(move_out(part.stream, place, keep_bytes=4 * part.scene.segment_bytes).segments)
        else:
            with part.journal.op("bring back") as done:
                done["segments"] = len(bring_back(part.stream).segments)
        part.rest(0.5)

    return step


def shuffle_names(part: Part) -> Callable[[], None]:
    """Makes other streams, gives them names, also those of others, and removes them: in the way of whoever lists all.

    Raises:
        AssertionError: one of its streams, which nobody else knows, does not hold what was added to it.
    """
    turn = 0

    def step() -> None:
        nonlocal turn
        turn += 1
        first, second = (f"{word}-{part.life}-{turn}" for word in ("made", "named"))
        keys = [key_of(first, part.life, number) for number in range(part.chance.randrange(1, 200))]
        with part.journal.op("make", name=first):
            part.store.stream(first).add_many([row_of(key) for key in keys])
        if part.chance.random() < 0.5:
            with part.journal.op("rename", name=first):
                part.store.rename(first, second)
            first = second
        found = part.noted(part.store.stream(first))["keys"].split()
        assert found == keys, f"{first} holds {len(found)} of {len(keys)} entries"
        if part.chance.random() < 0.9:
            with part.journal.op("remove", name=first):
                assert part.store.delete(first)
        part.rest(0.3)

    return step


def verify(part: Part) -> Callable[[], None]:
    """Reads everything against its checksums while others write: through a store, and without one."""

    def step() -> None:
        outside = part.chance.random() < 0.5
        with part.journal.op("verify", outside=outside) as done:
            report = diskstream.verify(part.path) if outside else part.store.verify()
            done.update(problems=[str(problem) for problem in report.problems], entries=report.entries)
        part.rest(1.0)

    return step


def back_up(part: Part) -> Callable[[], None]:
    """Makes a backup, reads it, and removes old ones."""
    target = part.root / BACKUPS

    def step() -> None:
        with part.journal.op("back up", cold=part.scene.cold) as done:
            made = make_backup(part.root / STORE, target)
            done.update(name=made.path.name, faults=[str(stream.faults) for stream in made.damaged])
        with part.journal.op("read backup", name=made.path.name) as done:
            done.update(read_backup(find_backup(made.path)))
        with part.journal.op("prune"):
            repository = Repository.open(target)
            prune(repository, superfluous(repository.backups(), keep=_KEPT_BACKUPS))
        part.rest(2.0)

    return step


def read_backup(backup: Backup) -> dict[str, object]:
    """What is wrong with a backup, and what is in it."""
    findings = [str(finding) for finding in check_backup(backup, Seen())]
    with diskstream.open(backup.path, read_only=True) as store:
        return {"findings": findings, "streams": contents(store)}


def contents(store: Store) -> dict[str, dict[str, object]]:
    """All that a store holds, for a journal: of each stream its entries, and of each group how far it is."""
    found: dict[str, dict[str, object]] = {}
    for name, groups in GROUPS.items():
        stream = store.stream(name)
        entries = list(stream.range())
        info = stream.info()
        states: dict[str, object] = {}
        for group in groups:
            about = stream.group(group, create=False).info()
            rows = stream.group(group, create=False).pending_range(count=1 << 40)
            states[group] = {
                "last": str(about.last_delivered_id),
                "read": about.entries_read,
                "lag": about.lag,
                "count": about.pending,
                "pending": packed(row.id for row in rows),
                "owners": [row.consumer.decode() for row in rows],
                "deliveries": [row.deliveries for row in rows],
            }
        found[name] = {
            "ids": packed(entry.id for entry in entries),
            "keys": " ".join(entry["k"].decode() for entry in entries),
            "length": info.length,
            "added": info.entries_added,
            "groups": states,
        }
    return found
