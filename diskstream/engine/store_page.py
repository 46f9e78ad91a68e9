"""The page of a store itself: who is alone with it, as it is opened, ends what the dead have begun."""

import contextlib
from pathlib import Path

from diskstream.engine import directory, stream_folders
from diskstream.engine.durable_folders import sync_above
from diskstream.engine.files import Files
from diskstream.engine.page import Page

__all__ = ["open_page"]


def open_page(store: Path, files: Files) -> Page:
    """The page of the store in directory `store`.

    Raises:
        StorageError: the disk said no.
    """
    streams = store / "streams"
    while True:
        page = Page.open(files, store / "ctl")
        if not page.alone:
            return page
        try:
            generation = page.renew()
            # Names that a killed process may have left unflushed.
            sync_above(store, files.sync_dir)
            for folder in (store, streams):
                files.sync_dir(folder)
            with contextlib.suppress(stream_folders.LeftError):  # of what is no stream any more: it keeps nobody out
                stream_folders.sweep(streams, files)
            directory.sweep_descriptions(store, files)
            if page.settle(generation):
                return page
        except BaseException:
            page.close()
            raise
        page.close()
