"""For the layers above: system calls whose errors are of our own tree, and files that are no pipes or devices."""

from diskstream.engine.files import open_regular, reading, wrapped

__all__ = ["open_regular", "reading", "wrapped"]
