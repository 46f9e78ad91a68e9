"""The segment files in a stream's directory and their sizes: there may be thousands, and nearly all are sealed."""

from os import DirEntry
from pathlib import Path

from diskstream.engine import names
from diskstream.engine.descriptors import listing
from diskstream.engine.files import size_of, wrapped

__all__ = ["FileSizes"]


class FileSizes:
    """The sizes of one opening's segment files: each is looked at now, and a sealed one once, as it never changes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sealed: dict[str, int] = {}

    def now(self) -> dict[str, int]:
        """The bytes of each log, sealed file and stub that is there now, by its name.

        Raises:
            FileNotFoundError: the directory is gone.
            StorageError: it cannot be listed, or a file cannot be looked at.
        """
        known, found, has_new = self._sealed, {}, False
        with wrapped(self._directory, "list"), listing(self._directory) as entries:
            for entry in entries:
                name = entry.name
                size = known.get(name)
                if size is None:
                    if names.parse_file(name) is None:
                        continue
                    size, has_new = _size(entry), has_new or name.endswith(".seg")
                found[name] = size
        if has_new:
            # A sealed file beside its log may still be made anew from it.
            self._sealed = {
                name: size for name, size in found.items() if name.endswith(".seg") and f"{name[:-4]}.log" not in found
            }
        return found


def _size(entry: DirEntry[str]) -> int:
    try:
        return entry.stat().st_size  # as the directory is open, far cheaper than a path
    except OSError:
        return size_of(Path(entry.path))  # nothing where it is gone, else an error that names it
