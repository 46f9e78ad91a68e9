"""A round from its beginning to its end: the store is made, the crowd let loose, and what is left is surveyed."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import diskstream
from diskstream import Delivery, Store
from tests.crowd.check_audit import audited
from tests.crowd.consuming import deliveries_noted
from tests.crowd.journal import Journal, packed
from tests.crowd.keeping import contents
from tests.crowd.part import FOLDERS, JOURNALS, STORE, Part
from tests.crowd.scene import GROUPS, Scene
from tests.crowd.supervisor import PATIENCE_S, supervise
from tests.engine.children import child
from tests.engine.sample import fast_directory

__all__ = ["perform", "played", "prepare", "survey"]

_QUIET = {"seal": "manual", "retention_interval_ms": 0}


def prepare(scene: Scene, root: Path) -> None:
    """An empty store with its groups."""
    for folder in FOLDERS[1:]:
        (root / folder).mkdir()
    with diskstream.open(root / STORE, **scene.options(random.Random(scene.seed))) as store:
        for name, groups in GROUPS.items():
            for group in groups:
                store.stream(name).create_group(group, "0", mkstream=True)


def _drain(scene: Scene, root: Path, store: Store, journal: Journal) -> None:
    """What is left is given to one that is not killed, until nothing is."""
    part = Part(scene, root, "last", 0, store, journal, None)  # type: ignore[arg-type]  # no chance here
    for name, groups in GROUPS.items():
        for group in groups:
            whole = store.stream(name).group(group, create=False)
            member = whole.consumer("last")
            about = {"stream": name, "group": group}

            def finish(entries: list[Delivery], whole: diskstream.Group = whole, about: dict[str, str] = about) -> None:
                ids = [entry.id for entry in entries]
                with journal.op("ack", **about, ids=packed(ids)) as done:
                    done["count"] = whole.ack(*ids)

            while True:
                with journal.op("autoclaim", **about) as done:
                    found = member.autoclaim(0, count=500)
                    done.update(deliveries_noted(part, found.entries), gone=packed(found.deleted))
                if not found.entries and not found.deleted:
                    break
                finish(found.entries)
            while True:
                with journal.op("new", block=None, **about) as done:
                    entries = member.read(count=500)
                    done.update(deliveries_noted(part, entries))
                if not entries:
                    break
                finish(entries)


def survey(scene: Scene, root: Path) -> None:
    """What is there when all are dead, and when what was left is done."""
    journal = Journal(root / JOURNALS, "last", 0)
    with diskstream.open(root / STORE, **scene.options(random.Random(scene.seed)) | _QUIET) as store:
        with journal.op("survey") as done:
            done["streams"] = contents(store)
            if scene.removal == "none":  # else the audit does not go back to the beginning
                done["audit"] = {name: audited(store.stream(name)) for name in GROUPS}
        with journal.op("verify", outside=False) as done:
            report = store.verify()
            done.update(problems=[str(problem) for problem in report.problems], entries=report.entries)
        _drain(scene, root, store, journal)
        with journal.op("drained") as done:
            done["streams"] = contents(store)


def perform(scene: Scene, root: Path) -> None:
    """Lets the crowd loose, until its time is up and all are dead."""
    with child(supervise, root, scene.seed, asdict(scene)) as supervisor:
        said = supervisor.hear(scene.seconds + 4 * PATIENCE_S)
        assert said.startswith("done"), said
        assert supervisor.wait() == 0


@contextmanager
def played(scene: Scene) -> Iterator[Path]:
    """A round that was played: its directory, with the store and the journals."""
    with fast_directory() as root:
        prepare(scene, root)
        perform(scene, root)
        survey(scene, root)
        yield root
