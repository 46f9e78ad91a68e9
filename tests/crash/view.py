"""The view in LMDB as a cut or a death may leave it: it is written past the recorder, since nothing depends on it.

A power cut leaves nothing of it that anyone may trust. What says so is its `epoch`: of another boot, or clean, which is
written durably before the first page is, and again after the last.
"""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from diskstream import Store
from diskstream.engine.state import View

__all__ = ["Image", "after_a_cut", "image_of", "leave_view", "put_view", "view_of"]


@dataclass(frozen=True)
class Image:
    """The files of a view, as far as they matter to who opens it next."""

    data: bytes
    epoch: bytes


# What stands in the epoch of torn pages: no boot of `world.World`.
_TORN = b"torn"


def image_of(store: Path) -> Image | None:
    """A store's view as it is now, with no transaction under way; None where there is none, or only torn pages."""
    try:
        image = Image((store / "view" / "data.mdb").read_bytes(), (store / "view" / "epoch").read_bytes())
    except FileNotFoundError:
        return None
    return None if image.epoch == _TORN else image


def put_view(store: Path, image: Image | None) -> None:
    """Puts another view in the place of a store's, or none at all. Nobody has it open."""
    shutil.rmtree(store / "view", ignore_errors=True)
    if image is not None and store.is_dir():
        (store / "view").mkdir()
        (store / "view" / "data.mdb").write_bytes(image.data)
        (store / "view" / "epoch").write_bytes(image.epoch)


def view_of(store: Store) -> View:
    """What an open store has as its view: kept, it is not closed with the store."""
    assert store._view is not None
    return store._view


def leave_view(view: View, *, cleanly: bool = False) -> None:
    """A process that ends, or dies, lets go of the view."""
    if cleanly:
        view.close()
    else:
        view.after_fork()  # descriptors go, and nothing is said


def after_a_cut(rng: random.Random, images: list[Image]) -> Image | None:
    """What a power cut left: nothing, torn pages of the boot before, or the view of another moment that seems sound."""
    if not images or rng.random() < 0.4:
        return None
    image = rng.choice(images)
    if rng.random() < 0.5:
        return Image(image.data, b"clean")
    pages = [image.data[at : at + 4096] for at in range(0, len(image.data), 4096)]
    torn = [page if rng.random() < 0.7 else rng.randbytes(len(page)) for page in pages]
    return Image(b"".join(torn), _TORN)
