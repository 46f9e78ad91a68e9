"""For the layers above: system calls whose errors are of our own tree."""

from diskstream.engine.files import wrapped

__all__ = ["wrapped"]
