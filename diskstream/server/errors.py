"""The error of a server that cannot start.

DiskstreamError
 └─ ServeError          a setting that cannot be, an address or a certificate that cannot be used
"""

from diskstream.errors import DiskstreamError

__all__ = ["ServeError"]


class ServeError(DiskstreamError):
    """The server cannot start as it is set.

    Attributes:
        hint: the way out, where there is one to name.
    """

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint
