"""All verbs of the command by their names, words with which each is well called, and a place where it then works."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import diskstream
from diskstream.backups import make_backup
from diskstream.cli import main
from diskstream.cold import move_out, sweep
from diskstream.copying import state_of

# Each is called elsewhere, by what it needs: a Redis, Spark, a port, minutes.
ELSEWHERE = {"archive", "bench", "completion", "demo", "serve"}

# `@` stands for the place.
WORDS = {
    "add": "s a=1",
    "backup create": "@/backups",
    "backup ls": "@/backups",
    "backup prune": "@/backups --keep 1",
    "backup verify": "@/backups",
    "cold adopt": "cold --from file://@/cold",
    "cold fetch": "cold",
    "cold ls": "cold",
    "cold move": "s --to file://@/cold --older-than 0s",
    "cold sweep": "--at file://@/cold --older-than 0s",
    "compact": "",
    "consumer ls": "s g",
    "consumer rm": "s g c",
    "count": "s",
    "del": "s 1-0",
    "export": "s -o @/export.jsonl",
    "group ack": "s g 1-0",
    "group claim": "s g d --min-idle 0",
    "group create": "s h",
    "group destroy": "s g",
    "group info": "s g",
    "group ls": "",
    "group pending": "s g",
    "group set-id": "s g 0",
    "import": "@/rows.csv -s imported",
    "info": "s",
    "inspect": "s",
    "len": "s",
    "ls": "",
    "range": "s",
    "rename": "s other --replace",
    "repair": "",
    "replay": "s --to stream:replayed@@/replayed --speed max",
    "restore": "@/backups --to @/restored",
    "retention apply": "ruled",
    "retention clear": "ruled",
    "retention set": "s --max-entries 1",
    "retention show": "",
    "rm": "s",
    "seal": "",
    "tail": "s",
    "top": "--once -i 50ms",
    "trim": "s --maxlen 1",
    "verify": "",
}

# They read what they are given, and have no --dir.
_WITHOUT_STORE = {"backup ls", "backup prune", "backup verify", "restore"}


def leaves(group: click.Group = main, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each verb with its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        title = f"{above} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, title)
        else:
            yield title, command


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def words_for(title: str, place: Path) -> list[str]:
    """The verb, well called at that place."""
    at = WORDS[title].replace("@@", "@\0").replace("@/", f"{place}/").replace("\0", f"{place}")
    return [*title.split(), *at.split(), *([] if title in _WITHOUT_STORE else ["--dir", str(place / "store")])]


def fill(place: Path) -> None:
    """A store with two streams, a group, a rule that was not gone by, cold segments and one that nobody needs, two
    backups, and a file to import.
    """
    url = f"file://{place}/cold"
    (place / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with diskstream.open(place / "store", seal="manual", segment_bytes=1 << 16, retention_interval_ms=0) as store:
        for name in ("s", "other", "ruled"):
            store.stream(name).add_many([{"n": n} for n in range(1, 4)], ids=["1-0", "2-0", "3-0"])
        store.stream("s").create_group("g", "0").consumer("c").read(count=2)
        for first in range(1, 401, 100):
            ids = [f"{number}-0" for number in range(first, first + 100)]
            store.stream("cold").add_many([{"pad": "." * 200}] * 100, ids=ids)
            store.seal("cold")
        move_out(store.stream("cold"), url, older_than_ms=0)
        for _ in range(2):
            make_backup(store.path, place / "backups")
        store.stream("cold").trim(minid="101")
        store.seal("cold")
        sweep(store, url, older_than_ms=86_400_000)  # notes what nobody needs any more
        store.stream("ruled").set_retention(max_entries=1)


def state(place: Path) -> dict[str, Any]:
    """All that a verb could take away."""
    found: dict[str, Any] = {}
    with diskstream.open(place / "store", read_only=True) as store:
        for stream in store:
            entries = [(str(entry.id), entry.pairs) for entry in stream.range()]
            found[stream.name.decode()] = entries, state_of(stream), stream.retention
    for folder in ("cold", "backups"):
        found[folder + "/"] = sorted(str(path) for path in (place / folder).rglob("*") if path.is_file())
    return found
