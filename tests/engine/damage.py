"""Ways to damage a store, one small change at a time; run as a program, it tries a batch of them.

It runs in a process of its own, because what it looks for includes the death of the interpreter. Before each case it
says which one comes next, so that the last line tells what killed it.
"""

import faulthandler
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engine.children import LIMIT_S
from tests.engine.forgery import forged_logs, forged_segments, forged_states
from tests.engine.sample import SMALL, Row, build, fast_directory, files_of
from tests.engine.verdict import Examination

__all__ = ["BATCHES", "Case"]


@dataclass(frozen=True)
class Case:
    """Files with other contents than they had (None: the file is not there)."""

    label: str
    changed: dict[str, bytes | None]


Contents = dict[str, bytes]


def of_stream(files: Contents, name: str = "x") -> list[str]:
    """The paths of one stream's files."""
    return [path for path in files if path.startswith(f"streams/{name}/")]


def telling_offsets(data: bytes) -> list[int]:
    """Every offset of what was written, and some of the zeros that fill up a file."""
    if len(data) <= 4096:
        last = len(data.rstrip(b"\0"))
        return [at for at in range(len(data)) if (at < last and (len(data) < 4096 or data[at])) or at % 97 == 0]
    end = len(data.rstrip(b"\0")) + 24
    header = [*range(64), *range(512, 544), *range(1024, 1056), *range(1536, 1556)]
    return sorted({*header, *range(4096, min(end, len(data))), *range(0, len(data), 991)})


def flipped(files: Contents) -> Iterator[Case]:
    """One bit of one byte, for every byte that says something."""
    for path in ["store.json", "ctl", *of_stream(files)]:
        for at in telling_offsets(files[path]):
            data = bytearray(files[path])
            data[at] ^= 1 << (at * 5 + at // 8) % 8
            yield Case(f"{path} byte {at}", {path: bytes(data)})


def truncated(files: Contents) -> Iterator[Case]:
    """Each file cut off, at many lengths."""
    for path in ["store.json", *of_stream(files)]:
        size = len(files[path])
        written = len(files[path].rstrip(b"\0"))
        for length in sorted({0, 1, 63, 64, 4095, 4096, *range(0, written, max(5, written // 150)), written, size - 1}):
            if length < size:
                yield Case(f"{path} cut to {length}", {path: files[path][:length]})


def zeroed(files: Contents) -> Iterator[Case]:
    """Ranges of zeros: blocks that were never written, or lost."""
    for path in of_stream(files):
        data, written = files[path], len(files[path].rstrip(b"\0"))
        for size in (8, 64, 512):
            for at in range(0, written, max(size, written // 24 // 8 * 8)):
                end = min(at + size, len(data))
                if any(data[at:end]):
                    yield Case(f"{path} zeros {at}..{end}", {path: data[:at] + bytes(end - at) + data[end:]})


def frame_ends(log: bytes) -> list[int]:
    """Where each frame of a sound log ends."""
    ends, at = [], 4096
    while int.from_bytes(log[at + 16 : at + 24], "little"):
        at += 64 + -(-int.from_bytes(log[at + 4 : at + 8], "little") // 8) * 8
        ends.append(at)
    return ends


def tailless(files: Contents) -> Iterator[Case]:
    """Logs that end where a frame ends, as if the frames behind it had never been written."""
    for path in of_stream(files):
        if path.endswith(".log"):
            data = files[path]
            for end in frame_ends(data)[:-1]:
                yield Case(f"{path} cut to {end}", {path: data[:end]})
                yield Case(f"{path} zeros from {end}", {path: data[:end] + bytes(len(data) - end)})


def grown(files: Contents) -> Iterator[Case]:
    """Garbage behind what was written, and behind the file's end: random bytes, and bytes of the file itself."""
    noise = bytes((at * 37 + at // 7) % 251 + 1 for at in range(300))
    for path in of_stream(files):
        data, written = files[path], len(files[path].rstrip(b"\0"))
        tail = data[max(0, written - 200) : written]
        for what, more in (("noise", noise), ("its own end", tail), ("its own start", data[:200]), ("one", b"\1")):
            yield Case(f"{path} with {what} behind its end", {path: data + more})
            for at in (written, written + 8 - written % 8, written + 100):
                if at + len(more) < len(data):
                    yield Case(f"{path} with {what} at {at}", {path: data[:at] + more + data[at + len(more) :]})


def misplaced(files: Contents) -> Iterator[Case]:
    """Files gone, swapped, doubled, and those of another stream."""
    ours = [path for path in of_stream(files) if not path.endswith("/ctl")]
    for path in ["store.json", *of_stream(files), "ctl"]:
        yield Case(f"{path} is gone", {path: None})
    for path in ours:
        yield Case(f"{path} is another stream's", {path: files[path.replace("/x/", "/y/")]})
        for other in ours:
            if path != other:
                yield Case(f"{path} and {other} are swapped", {path: files[other], other: files[path]})
                yield Case(f"{path} has the bytes of {other}", {path: files[other]})
        for name in ("00000002.seg", "00000001.seg", "00000009.seg", "00000006.log", "00000001.g7.seg", "00000004.seg"):
            beside = f"streams/x/{name}"
            yield Case(f"{path} stands again as {name}", {beside: files[path]})
            yield Case(f"{path} was moved to {name}", {beside: files[path], path: None})
    yield Case("all logs are gone", {path: None for path in ours if path.endswith(".log")})
    yield Case("all sealed segments are gone", {path: None for path in ours if path.endswith(".seg")})
    yield Case("everything is gone", dict.fromkeys(of_stream(files)))


def forged(files: Contents) -> Iterator[Case]:
    """Bytes changed and all checksums made right."""
    forgers = {".log": forged_logs, ".seg": forged_segments, ".state": forged_states}
    for path in of_stream(files):
        if not path.endswith("/ctl"):
            for label, data in forgers[Path(path).suffix](files[path]):
                yield Case(f"{path} {label}", {path: data})


BATCHES: dict[str, Callable[[Contents], Iterator[Case]]] = {
    "flipped": flipped,
    "truncated": truncated,
    "tailless": tailless,
    "zeroed": zeroed,
    "grown": grown,
    "misplaced": misplaced,
    "forged": forged,
}


def restore(root: Path, files: Contents) -> None:
    """Every file as it was, and no other."""
    there = files_of(root)
    for path in there.keys() - files.keys():
        (root / path).unlink()
    for path, data in files.items():
        if there.get(path) != data:
            (root / path).write_bytes(data)


def damage(root: Path, case: Case) -> None:
    for path, data in case.changed.items():
        if data is None:
            (root / path).unlink()
        else:
            (root / path).write_bytes(data)


@dataclass(frozen=True)
class Trial:
    """A store at `root` as it was made, and how much of an examination each damage to it gets."""

    root: Path
    files: Contents
    states: list[list[Row]]
    forged: bool

    def run(self, number: int, case: Case) -> list[str]:
        """What a store with this damage does that it should not."""
        examination = Examination(self.root, self.states, self.forged)
        # One way of opening for each case: its neighbours, damaged a byte further, have the other.
        damage(self.root, case)
        if number % 2 or len(case.changed) > 1:
            examination.read_only()
            restore(self.root, self.files)
            damage(self.root, case)
        if number % 2 == 0 or len(case.changed) > 1:
            examination.writing(thorough=number % 8 == 0)
        restore(self.root, self.files)
        return examination.offences


def main(batch: str, part: int, parts: int) -> None:
    """Tries every `parts`-th case of a batch. Says each case, and each offence behind an exclamation mark."""
    # A length that is believed must not take all memory.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    with fast_directory() as directory:
        root = directory / "s"
        names = ["x", "y"] if batch == "misplaced" else ["x"]
        options = {**SMALL, "compression_level": 0} if batch == "forged" else SMALL
        states = build(root, *names, **options)["x"].states
        trial = Trial(root, files_of(root), states, batch == "forged")
        for number, case in enumerate(BATCHES[batch](trial.files)):
            if number // 2 % parts != part:
                continue
            sys.stdout.write(f"{number} {case.label}\n")
            sys.stdout.flush()
            faulthandler.dump_traceback_later(LIMIT_S, exit=True)
            for offence in trial.run(number, case):
                sys.stdout.write(f"! {case.label}: {offence.replace(str(root), 'STORE')}\n")
        sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
