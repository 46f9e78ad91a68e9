"""How a client is opened: by a directory, or by a URL."""

import dataclasses
import os
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from diskstream.compat.calling import Calling
from diskstream.compat.link import Commands, Link
from diskstream.options import Options

__all__ = ["Opened", "parse_url"]


class Opened(Calling):
    """A client over the store in a directory.

    Clients of one process that open the same directory with the same options share what is open. Opening looks at a
    disk; the rest of a client's life begins when it is first used.

    Args:
        path: the directory; made where there is none.
        db: the number of the database: 0 is the store in `path` itself, N the one in ``dbN`` below.
        decode_responses: strings come out as str instead of bytes.
        encoding, encoding_errors: of str, in and out.
        protocol: the shapes of replies: 2, 3, or None for those of 2, as with redis-py.
        legacy_responses: False gives redis-py's unified shapes.
        commands: other commands than diskstream's own; for tests.
        store_options: see `diskstream.Options`.

    Raises:
        DiskstreamError: the store cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        db: int = 0,
        *,
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        protocol: int | None = None,
        legacy_responses: bool = True,
        commands: Commands | None = None,
        **store_options: Any,
    ) -> None:
        self._link = Link(
            path,
            db=db,
            protocol=protocol,
            legacy_responses=legacy_responses,
            decode_responses=decode_responses,
            encoding=encoding,
            encoding_errors=encoding_errors,
            options=store_options,
            commands=commands,
        )

    def __repr__(self) -> str:
        closed = " closed" if self._link.closed else ""
        return f"<diskstream.compat {os.fspath(self._link.path)!r} db={self._link.database}{closed}>"

    @classmethod
    def from_url(cls, url: str, **kwargs: Any) -> Self:
        """A client by a URL as ``diskstream:///var/lib/app/0?decode_responses=1``: see `parse_url`.

        Args:
            url: what it says goes before `kwargs`.
            kwargs: as for the class.

        Raises:
            ValueError: it is no such URL.
        """
        path, found = parse_url(url)
        return cls(path, **{**kwargs, **found})


def parse_url(url: str) -> tuple[str, dict[str, Any]]:
    """The directory that a URL names, and the arguments.

    ``diskstream:///a/b`` is the directory /a/b, ``diskstream://a/b`` is a/b below the current one. A number behind the
    last slash is the database, unless there is ``?db=``. What else stands behind the question mark are arguments of the
    client and options of the store.

    Raises:
        ValueError: it is no such URL, or a value is none of its argument's.
    """
    parts = urlsplit(url)
    if parts.scheme != "diskstream" or not parts.netloc + parts.path:
        raise ValueError(f"{url!r} is no URL of a store: diskstream:///directory/0?decode_responses=1")
    found = {name: _value(name, text) for name, text in parse_qsl(parts.query, keep_blank_values=True)}
    path = unquote(parts.netloc + parts.path)
    before, slash, last = path.rpartition("/")
    if "db" not in found and slash and last.isascii() and last.isdigit():
        found["db"] = int(last)
        path = before or "/"
    return path, found


def _value(name: str, text: str) -> Any:
    known: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Options)}
    known |= {"db": 0, "decode_responses": False, "legacy_responses": True, "protocol": 0}
    if isinstance(known.get(name), bool):
        if text.lower() not in ("1", "0", "true", "false", "yes", "no"):
            raise ValueError(f"{name} must be 1 or 0, not {text!r}")
        return text.lower() in ("1", "true", "yes")
    return int(text) if isinstance(known.get(name), int) else text
