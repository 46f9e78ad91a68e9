"""For the layers above: system calls whose errors are of our own tree, and files that are no pipes or devices."""

from diskstream.engine.files import open_regular, read_small, reading, wrapped
from diskstream.engine.looks import refuse_link

__all__ = ["open_regular", "read_small", "reading", "refuse_link", "wrapped"]
