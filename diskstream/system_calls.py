"""For the layers above: system calls whose errors are of our own tree, and files that are no pipes or devices."""

from diskstream.engine.belonging import give, give_folder
from diskstream.engine.descriptors import means_are_short, tried_again
from diskstream.engine.durable_folders import make_folders
from diskstream.engine.files import open_regular, read_small, reading, wrapped
from diskstream.engine.locks import exclusively, lock_now
from diskstream.engine.looks import (
    all_below,
    children,
    followed,
    is_file,
    is_folder,
    is_link,
    is_there,
    named,
    refuse_link,
)

__all__ = [
    "all_below",
    "children",
    "exclusively",
    "followed",
    "give",
    "give_folder",
    "is_file",
    "is_folder",
    "is_link",
    "is_there",
    "lock_now",
    "make_folders",
    "means_are_short",
    "named",
    "open_regular",
    "read_small",
    "reading",
    "refuse_link",
    "tried_again",
    "wrapped",
]
