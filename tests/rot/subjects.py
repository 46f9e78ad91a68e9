"""What is damaged, and what must hold afterwards: right data, an error that names the place, or a gap that is told."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import diskstream
from diskstream import ArgumentError, EntryID, Store
from diskstream.archiving.marks import load
from diskstream.backups import BackupError, Seen, check_backup, find_backup, restore
from diskstream.backups.repository import Repository
from diskstream.checkpoints import Checkpoints
from diskstream.cold import sweep
from diskstream.commands.keyspace import Keyspace
from diskstream.exporting import ExportRequest, export_directory
from diskstream.store_files import directory_of
from tests.commands.world import Ours, Refused
from tests.rot import world
from tests.rot.damages import Damage, Foreign, Tree
from tests.rot.seen import SeenStream, Witness, look_at_all, verified

__all__ = ["SUBJECTS", "Subject"]

# What is in object storage, and how far archives and replays had come, is not the repair's to mend. The latter only
# where it is damaged.
_ELSEWHERE, _MARKS = ("place", ".cold"), ("/archives/", "/replays/")


def one_in(count: int, number: int) -> bool:
    """Whether a damage is looked at in a way that one in so many is: whatever kind of damage its number stands for."""
    return crc32(f"{number} of {count}".encode()) % count == 0


class Subject(ABC):
    """A place with files, how they are damaged, and what is looked at."""

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()
    telling: ClassVar[tuple[type[Exception], ...]] = ()
    damage: Damage

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.build()
        self.tree = Tree(root)
        self.foresee()
        self.tree.restore()

    @abstractmethod
    def build(self) -> None:
        """Makes the files."""

    @abstractmethod
    def foresee(self) -> None:
        """Looks at what is there while all is well."""

    def paths(self) -> list[str]:
        """The files that are damaged."""
        return sorted(self.tree.files)

    def _is_another_stream(self, damage: Damage) -> bool:
        """Whether a stream of one log has the whole log of another."""
        logs = {path for path, what in damage.changed.items() if path.endswith(".log") and isinstance(what, bytes)}
        folders = [_folder(path) for path in self._segments]
        alone = {log for log in logs if folders.count(_folder(log)) == 1}
        return damage.kind in ("swapped files", "duplicated files", "foreign files") and bool(alone)

    @property
    def _segments(self) -> list[str]:
        return [path for path in self.tree.files if path.endswith((".log", ".seg", ".cold"))]

    @abstractmethod
    def examine(self, witness: Witness, number: int) -> bool:
        """Looks at everything. Returns whether it is all there and right; notes offences."""

    def run(self, number: int, damage: Damage) -> tuple[str, list[str]]:
        """What came of a damage, and what should not have."""
        self.tree.damage(damage)
        witness = Witness(self.root, *self.words, telling=self.telling)
        self.damage = damage
        try:
            right = self.examine(witness, number)
        finally:
            self.tree.restore()
        if self._is_another_stream(damage):
            # Its files say nothing of a stream's name: where the only one is another stream's, it is that stream.
            witness.offences = [each for each in witness.offences if "Error" in each]
            return "another stream, whole", witness.offences
        if not right and not witness.told:
            witness.offend("something is gone or wrong, in silence")
        outcome = "right data" if right else "a typed error"
        if not right and not any("Error: " in told for told in witness.told):
            outcome = "a reported gap"
        return outcome, witness.offences


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _same(found: SeenStream, expected: SeenStream) -> bool:
    return found.whole and (found.entries, found.state, found.audit, found.details) == (
        *(expected.entries, expected.state),
        *(expected.audit, expected.details),
    )


def _judge(witness: Witness, name: bytes, found: SeenStream, expected: SeenStream, ever: list[Any]) -> None:
    """Nothing that nobody wrote; in order."""
    ids = [row[0] for row in found.entries]
    if any(row not in ever for row in found.entries) or ids != sorted(set(ids)):
        witness.offend(f"{name[:20]!r}: entries that nobody wrote, or out of order: {found.entries[:3]}")
    said, happened = found.audit or [], expected.audit or []
    if said != happened and found.state == expected.state and any(each not in happened for each in said):
        witness.offend(f"{name[:20]!r}: the audit says what never happened")


class SmallStore(Subject):
    """A store with a file of every kind, the view among them."""

    name = "store"
    options: ClassVar[dict[str, Any]] = {**world.OPTIONS, "pending_rows": 4}

    def build(self) -> None:
        """Makes it, with the objects of what is in cold storage."""
        with world.fill_store(self.root / "store", f"file://{self.root}/place") as store:
            world.archive_into(store)
            store.lease(["ruled"])
        with self.open() as store:  # its view is made with a small memory, so that there is one
            store.stream("x").group("riders").consumer("ann").read(count=1)

    def open(self, *, read_only: bool = False) -> Store:
        """The store as it is used."""
        return diskstream.open(
            self.root / "store", read_only=read_only, create=False, clock=world.counting_clock(), **self.options
        )

    def foresee(self) -> None:
        """Entries that were deleted are there again where what deleted them is lost: they count as written."""
        witness = Witness(self.root)
        with self.open(read_only=True) as store:
            self.names = store.streams()
            self.expected = look_at_all(store, self.names, witness, "sound")
            self.mark = load(Checkpoints(store), b"spare")
        self.ever = {name: self._ever(name) for name in self.names}
        assert not witness.offences, witness.offences
        assert not witness.told, witness.told
        assert (self.root / "store/view/data.mdb").exists()

    def _ever(self, name: bytes) -> list[Any]:
        rows = list(self.expected[name].entries)
        if name == b"x":
            rows += [
                (EntryID(n, 7), [(b"n", b"%d of x" % (n - 1)), (b"pad", b"\x00\xff" * ((n - 1) % 5))])
                for n in range(1, 60)
            ]
        return rows

    def paths(self) -> list[str]:
        """All but what is shared with the lease, whose files are damaged with those of their stream."""
        return [path for path in super().paths() if "/leases/" not in path or path.endswith(".json")]

    def examine(self, witness: Witness, number: int) -> bool:
        """By turns with and without writing."""
        writes = one_in(2, number)
        store = witness.attempt("open", lambda: self.open(read_only=not writes))
        if store is None:
            verified(self.root / "store", witness, "of files")
            if one_in(5, number):
                self._repair(witness)
            return False
        names = self.names if one_in(8, number) else self._touched()
        found = look_at_all(store, names, witness, "writing" if writes else "reading")
        before = bool(witness.told)
        sound = verified(self.root / "store", witness, "open", store)
        if before and sound:
            witness.offend(f"verify finds nothing, and there was {witness.told[0]}")
        witness.told += [f"recovery: {finding}" for report in store.recoveries for finding in report.findings]
        mark = witness.attempt("checkpoint", lambda: load(Checkpoints(store), b"spare"))
        if mark != self.mark and mark is not None:
            witness.offend(f"the checkpoint says {mark}")
        # One that is gone was never there, and the stream no archiver's: the next archive refuses it.
        changed = self.damage.changed.items()
        unknown = any("archives/" in path and what in (None, Foreign.DANGLING) for path, what in changed)
        right = (mark == self.mark or unknown) and store.streams() == self.names
        for name in names:
            _judge(witness, name, found[name], self.expected[name], self.ever[name])
            right = right and self._same(found[name], self.expected[name])
        if writes:
            self._change(witness, store, found, number)
        witness.attempt("close", store.close)
        if writes:
            self._again(witness, found)
        if one_in(5, number):
            self._repair(witness)
        return right

    def _touched(self) -> list[bytes]:
        """The streams whose files the damage is in, and the one with groups; all where it is in none."""
        folders = {Path(path).parent.name for path in self.damage.changed if "/streams/" in path}
        found = [name for name in self.names if directory_of(name) in folders]
        return sorted({*found, b"x"}) if found else self.names

    def _same(self, found: SeenStream, expected: SeenStream) -> bool:
        """An audit file that is gone is no fault: nobody can tell that there ever was one."""
        gone = all(
            path.endswith(".audit") and what in (None, Foreign.DANGLING) for path, what in self.damage.changed.items()
        )
        if gone and found.audit is not None and expected.audit is not None:
            found.audit = expected.audit if all(each in expected.audit for each in found.audit) else None
        return _same(found, expected)

    def _change(self, witness: Witness, store: Store, found: dict[bytes, SeenStream], number: int) -> None:
        """Adds to each stream, and has groups go on."""
        row = (EntryID(2_000_000_000_000_000, 1), [(b"new", b"1")])
        for name, seen in found.items():
            if witness.attempt("add", partial(store.stream(name).add, {"new": "1"}, row[0])) is not None:
                seen.entries.append(row)
                self.ever[name] = [*self.ever[name], row] if row not in self.ever[name] else self.ever[name]
        x = store.stream("x")
        for entry in witness.attempt("read as a group", lambda: self._deliver(x)) or []:
            if not entry.gone and (entry.id, entry.pairs) not in self.ever[b"x"]:
                witness.offend(f"a group was given what nobody wrote: {entry}")
        if one_in(4, number):
            witness.attempt("seal", store.seal)
            witness.attempt("compact", store.compact)
            witness.attempt("lease", lambda: store.lease(["ruled"]))
            witness.attempt("sweep", lambda: sweep(store, f"file://{self.root}/place", older_than_ms=0))

    @staticmethod
    def _deliver(stream: diskstream.Stream) -> Sequence[diskstream.Delivery]:
        if not stream.exists():
            return []
        riders = stream.group("riders", create=False)
        if not riders.exists():
            return []
        given = riders.consumer("ann").read(count=3)
        riders.pending()
        riders.ack(*(each.id for each in given[:1]))
        return [*given, *riders.consumer("eve").autoclaim(0, count=3).entries]

    def _again(self, witness: Witness, before: dict[bytes, SeenStream]) -> None:
        """What was seen before is seen again."""
        store = witness.attempt("again", self.open)
        if store is None:
            return
        found = look_at_all(store, list(before), witness, "again")
        for name, then in before.items():
            now = found[name]
            _judge(witness, name, now, self.expected[name], self.ever[name])
            if then.whole and now.whole and [row for row in then.entries if row not in now.entries]:
                witness.offend(f"{name[:20]!r}: what was there before it was opened again is not")
        witness.attempt("again: close", store.close)

    def _repair(self, witness: Witness) -> None:
        reports = witness.attempt("repair", lambda: list(diskstream.repair(self.root / "store")))
        if reports is None:
            return
        if not verified(self.root / "store", Witness(self.root), "repaired"):
            after = Witness(self.root)
            verified(self.root / "store", after, "repaired")
            if any("--give-up" in report.failed for report in reports):
                # Where others are in object storage one of which nothing is left may be there, too: the user says no.
                list(diskstream.repair(self.root / "store", give_up=True))
                after = Witness(self.root)
                verified(self.root / "store", after, "given up")
            marks = tuple(part for part in _MARKS if any(part in path for path in self.damage.changed))
            whole = not any(isinstance(what, Foreign) for what in self.damage.changed.values())
            if whole and not all(any(part in told for part in (*_ELSEWHERE, *marks)) for told in after.told):
                witness.offend(f"repaired, and verify still finds {after.told}")
        store = witness.attempt("open after the repair", self.open)
        if store is not None:
            for name, found in look_at_all(store, store.streams(), Witness(self.root), "repaired").items():
                found.audit = None  # a log that was written anew says what there is, and not how it came to be
                if name in self.names:
                    _judge(witness, name, found, self.expected[name], self.ever[name])
            witness.attempt("close after the repair", store.close)


class LargeStore(SmallStore):
    """A store of some thousand entries, in nodes and segments of more usual sizes."""

    name = "large store"
    options: ClassVar[dict[str, Any]] = {"fsync": "os", "seal": "manual", "segment_bytes": 256 << 10}

    def build(self) -> None:
        """Makes it."""
        world.fill_large(self.root / "store")

    def foresee(self) -> None:
        """Looks at it."""
        witness = Witness(self.root)
        with self.open(read_only=True) as store:
            self.names, self.mark = store.streams(), None
            self.expected = look_at_all(store, self.names, witness, "sound")
        self.rows = {row[0]: row for row in self.expected[b"x"].entries}
        self.ever = {b"x": _Rows(self.expected[b"x"].entries)}

    def _change(self, witness: Witness, store: Store, found: dict[bytes, SeenStream], number: int) -> None:
        witness.attempt("add", lambda: store.stream("x").add({"n": "last"}, "9000-2"))


class _Rows(list[Any]):
    """Many rows, found by their IDs."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__(rows)
        self._by_id = {row[0]: row for row in rows}
        self._by_id[EntryID(9000, 2)] = (EntryID(9000, 2), [(b"n", b"last")])

    def __contains__(self, row: object) -> bool:
        return isinstance(row, tuple) and self._by_id.get(row[0]) == row


class Server(Subject):
    """What a server keeps beside the streams of database 0."""

    name = "server"

    def build(self) -> None:
        """Makes it."""
        world.serve_from(self.root / "server")

    def paths(self) -> list[str]:
        """The streams of database 0 are as those of any store."""
        return [path for path in super().paths() if "/keys/" in path or "/db1/" in path]

    _ASKED = (
        *("GET word", "PEXPIRETIME word", "SMEMBERS colours", "TYPE colours", "XRANGE timed - +", "PEXPIRETIME timed"),
        *("XRANGE plain - +", "PEXPIRETIME plain", "EXISTS gone", "SELECT 1", "XRANGE other - +", "DBSIZE"),
    )

    def _ask(self, keyspace: Keyspace) -> list[Any]:
        ours = Ours(keyspace)
        return [ours.run(line) for line in self._ASKED]

    def foresee(self) -> None:
        """Asks everything."""
        with Keyspace(self.root / "server", **world.OPTIONS) as keyspace:
            self.replies = self._ask(keyspace)

    def examine(self, witness: Witness, number: int) -> bool:
        """Asks the same, sets another key, and asks again."""
        keyspace = witness.attempt(
            "open", lambda: Keyspace(self.root / "server", read_only=not one_in(2, number), **world.OPTIONS)
        )
        right = False
        if keyspace is not None:
            found = witness.attempt("ask", lambda: self._ask(keyspace)) or []
            for expected, reply in zip(self.replies, found, strict=False):
                if reply != expected:
                    witness.told += [f"Error: {reply!r}"] if isinstance(reply, Refused) else []
            right = found == self.replies
            for place, store in list(keyspace._stores.items()):
                witness.told += [f"recovery of {place}: {report}" for report in store.recoveries]
            kept = keyspace._records._store
            witness.told += [] if kept is None else [f"recovery of the keys: {report}" for report in kept.recoveries]
            if one_in(2, number):
                witness.attempt("set", lambda: Ours(keyspace).run("SET another held"))
            witness.attempt("close", keyspace.close)
        if not right:
            verified(self.root / "server", witness, "of files")
        return right


class Backups(Subject):
    """A directory of backups: checked, and restored from."""

    name = "backups"
    telling = (BackupError,)

    def build(self) -> None:
        """Makes a store, and backups of it; the store goes away."""
        with world.fill_store(self.root / "store", f"file://{self.root}/place"):
            pass
        world.back_up(self.root / "store", self.root / "backups")

    def foresee(self) -> None:
        """Restores it whole."""
        self.names = [b"x", b"cold", b"spare", world.LONG, b"ruled", b"empty"]
        expected = self._restored(Witness(self.root))
        assert expected is not None
        self.expected = expected

    def paths(self) -> list[str]:
        """The files of backups."""
        return [path for path in super().paths() if path.startswith("backups/")]

    def _restored(self, witness: Witness) -> dict[bytes, SeenStream] | None:
        target = self.root / "restored"
        made = witness.attempt("restore", lambda: restore(find_backup(self.root / "backups"), target))
        if made is None:
            return None
        with diskstream.open(target, create=False, **world.OPTIONS) as store:
            found = look_at_all(store, self.names, witness, "restored")
        shutil.rmtree(target)
        return found

    def examine(self, witness: Witness, number: int) -> bool:
        """Checks all backups, restores the newest, reads the oldest where it is."""
        backups = witness.attempt("list", lambda: Repository.open(self.root / "backups").backups()) or []
        findings: list[str] = []
        for backup in backups:
            found = witness.attempt("check", partial(check_backup, backup, Seen(), deep=one_in(4, number)))
            findings += [f"check: {each.path}: {each.what}" for each in found or []]
            findings += [backup.fault] if getattr(backup, "fault", "") else []
        restored: dict[bytes, SeenStream] | None = self.expected
        if one_in(2, number):
            restored = self._restored(witness)
        if restored is not None:
            for name in self.names:
                if not _same(restored[name], self.expected[name]) and not findings and len(backups) == 2:
                    witness.offend(f"{name[:20]!r}: the restored store has other things in it")
        witness.told += findings
        return len(backups) == 2 and not findings and restored == self.expected


class Export(Subject):
    """An export in parts that was killed before its end, and goes on."""

    name = "export"
    words = ("stream spare", "stream x")  # an export of another store's streams
    telling = (ArgumentError,)

    def build(self) -> None:
        """Makes a store and an export that lacks its last parts."""
        with world.fill_store(self.root / "store", f"file://{self.root}/place"):
            pass
        world.export_from(self.root / "store", self.root / "export")

    def foresee(self) -> None:
        """Takes the last lines of the manifest away."""
        export = self.root / "export"
        self.parts = {path.name: path.read_bytes() for path in export.glob("part-*")}
        lines = (export / "export.jsonl").read_bytes().splitlines(keepends=True)
        (export / "export.jsonl").write_bytes(b"".join(lines[:4]))
        for name in sorted(self.parts)[3:]:
            (export / name).unlink()
        self.tree = Tree(self.root)

    def paths(self) -> list[str]:
        """Its manifest: of the parts, only the sizes are its affair."""
        return ["export/export.jsonl"]

    def examine(self, witness: Witness, number: int) -> bool:
        """Goes on."""
        export = self.root / "export"

        def go_on() -> Any:
            with diskstream.open(self.root / "store", read_only=True, create=False) as store:
                return export_directory(store, ExportRequest([b"x", b"spare"], "jsonl"), export, rows_per_file=9)

        report = witness.attempt("go on", go_on)
        if report is None:
            return False
        if {path.name: path.read_bytes() for path in export.glob("part-*")} != self.parts:
            witness.offend("the export is complete, and is not what the store has")
        return True


# In the order in which they have their turns; the store has every second one.
SUBJECTS: tuple[type[Subject], ...] = (
    *(SmallStore, Server, SmallStore, Backups),
    *(SmallStore, LargeStore, SmallStore, Export),
)
