"""Files of a stream that lie where they do not belong: a repair brings back those that their stream lacks."""

from functools import cached_property
from pathlib import Path

from diskstream.engine import names, quarantine, recovery
from diskstream.engine.files import Files
from diskstream.engine.looks import children, is_file, is_folder, is_link, is_there
from diskstream.engine.ownership import owner_of

__all__ = ["Misplaced", "active_in"]


def active_in(directory: Path) -> tuple[int, bool, bool]:
    """The number of a stream's active segment, whether its file is missing, whether that of the one behind it is."""
    found = [parsed for path in directory.iterdir() if (parsed := names.parse_file(path.name)) is not None]
    logs = [number for kind, number, _ in found if kind == "log"]
    sealed = max((number for kind, number, _ in found if kind in ("seg", "cold")), default=0)
    active = max(logs, default=0)
    audits = (names.audit_number(path.name) or 0 for path in directory.iterdir())
    kept = max(audits, default=0)  # of segments that were rolled: the active one is behind them
    if active <= sealed or active < kept:
        return max(sealed, kept) + 1, True, False
    return active, False, recovery.is_left_behind(names.log_path(directory, active))


class Misplaced:
    """What lies of a stream in the directories and quarantines of others, and in its own quarantine by a wrong name.

    What is in its own quarantine by its right name was no stranger, but damaged, and older than what took its place.

    Args:
        identity: of the stream; None where nothing says it, and nothing is found then.
        directory: of the stream, or what stands for it.
        streams: where all streams of the store are.
        files: what to write with.
    """

    def __init__(self, identity: bytes | None, directory: Path, streams: Path, files: Files) -> None:
        self._identity, self._directory, self._streams, self._files = identity, directory, streams, files

    @cached_property
    def _found(self) -> dict[tuple[str, int, int], Path]:
        """By kind, number and generation: all headers of the store are read, so only where something is missing."""
        if self._identity is None:
            return {}
        name = self._directory.name
        others = [each for each in children(self._streams) if each.name[0] != "." and each.name != name]
        own = [self._directory / "quarantine", self._streams / name / "quarantine"]
        found: dict[tuple[str, int, int], Path] = {}
        for folder in [*others, *(each / "quarantine" for each in others), *own]:
            for path in children(folder) if is_folder(folder) and not is_link(folder) else []:
                parsed = names.parse_file(path.name if folder in others else path.name.rpartition("-")[0])
                if parsed is None or parsed[0] == "cold" or not is_file(path):
                    continue
                if is_link(path) and folder != own[0]:  # in what stands for a stream, files are links to its own
                    continue
                owner = owner_of(path, parsed[0])
                if owner is not None and owner[0] == self._identity and (folder not in own or owner[1:] != parsed[1:]):
                    found.setdefault((parsed[0], *owner[1:]), path)
        return found

    def bring_back(self, kind: str, number: int, generation: int) -> str:
        """Puts a file that is missing where it belongs. Returns what was done; empty where none was found.

        Raises:
            StorageError: the disk said no.
        """
        path = self._found.get((kind, number, generation))
        if path is None:
            return ""
        right = names.segment_path(self._directory, number, generation)
        right = names.log_path(self._directory, number) if kind == "log" else right
        folder = path.parent.parent if path.parent.name == "quarantine" else path.parent
        where = "the quarantine" if folder.name == self._directory.name else f"the directory {folder.name}"
        quarantine.bring(path, right, self._files)
        return f"brought {right.name} back from {where}: it is this stream's"

    def newest_log(self) -> int:
        """The number of the newest log that lies elsewhere; 0 where none does."""
        return max((number for kind, number, _ in self._found if kind == "log"), default=0)

    def look_for(self, number: int, generation: int) -> list[str]:
        """Brings a segment back that has neither a file nor a stub. Returns what was done.

        Raises:
            StorageError: the disk said no.
        """
        sealed = names.segment_path(self._directory, number, generation)
        if is_there(sealed) or is_there(names.cold_path(self._directory, number, generation)):
            return []
        if not generation and is_there(names.log_path(self._directory, number)):
            return []
        found = self.bring_back("seg", number, generation)
        if not found and not generation:
            found = self.bring_back("log", number, 0)
        return [found] if found else []
