"""Addresses of object storage: what may be said in a URL, and the file system of pyarrow behind it.

A URL is kept in stubs and printed, so it never holds a secret: credentials come from the environment of whoever reads
or writes (for S3 the chain of the AWS SDK).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from diskstream.engine import forking
from diskstream.errors import ArgumentError, needs

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["MAX_URL_CHARS", "Address", "file_systems"]

MAX_URL_CHARS = 2048
# What may stand behind the question mark, for each scheme. Nothing that could be a secret.
_SETTINGS = {
    "file": frozenset[str](),
    "s3": frozenset({"endpoint_override", "region", "scheme"}),
    "gs": frozenset({"endpoint_override", "scheme"}),
    "abfs": frozenset({"blob_storage_authority", "dfs_storage_authority"}),
    "abfss": frozenset({"blob_storage_authority", "dfs_storage_authority"}),
}
_VALUE = re.compile(r"[A-Za-z0-9._:/\[\]-]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXAMPLE = (
    "s3://bucket/prefix, gs://bucket/prefix, abfss://container@account.dfs.core.windows.net/prefix or file:///path"
)

# Seconds without a byte, until an attempt counts as failed; and attempts of one request.
_SILENCE_S = 15.0
_CONNECT_S = 10.0
_ATTEMPTS = 2


@dataclass(frozen=True)
class Address:
    """A place in object storage.

    Attributes:
        url: as it may be stored and shown; parsing it gives this address again.
        scheme: ``file``, ``s3``, ``gs``, ``abfs`` or ``abfss``.
        root: the folder as the file system names it: bucket and prefix, or a path.
        settings: what stood behind the question mark.
    """

    url: str
    scheme: str
    root: str
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, url: str) -> Address:
        """Checks a URL.

        Raises:
            ArgumentError: no such address, or one with a password or a setting that is not known. The message does not
                repeat what might be a secret.
        """
        given: object = url
        if not isinstance(given, str) or not given or len(given) > MAX_URL_CHARS or not given.isprintable():
            raise ArgumentError(f"a place is a URL of at most {MAX_URL_CHARS} printable characters: {_EXAMPLE}")
        try:
            parts = urlsplit(given)
            settings = tuple(sorted(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))))
        except ValueError:
            raise ArgumentError(f"this is no URL of a place: {_EXAMPLE}") from None
        known = _SETTINGS.get(parts.scheme)
        if known is None:
            raise ArgumentError(f"a place is at {_EXAMPLE}; this is none of them")
        _check_settings(parts.scheme, settings, parts.fragment, known)
        prefix = _prefix(parts.path)
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or not prefix:
                raise ArgumentError("a place on this machine has a whole path: file:///path")
            return cls._checked(f"file:///{quote(prefix)}", "file", f"/{prefix}", ())
        container = _container(parts.scheme, parts.netloc)
        root = f"{container}/{prefix}" if prefix else container
        query = f"?{urlencode(settings, safe=':/[]')}" if settings else ""
        return cls._checked(f"{parts.scheme}://{parts.netloc}/{quote(prefix)}{query}", parts.scheme, root, settings)

    @classmethod
    def _checked(cls, url: str, scheme: str, root: str, settings: tuple[tuple[str, str], ...]) -> Address:
        if len(url) > MAX_URL_CHARS:  # what is no plain letter takes more room than it was given with
            raise ArgumentError(f"the URL of a place has at most {MAX_URL_CHARS} characters when it is quoted")
        return cls(url, scheme, root, settings)

    def open(self) -> fs.FileSystem:
        """The file system, with time limits; nothing is looked at yet.

        Raises:
            ArgumentError: pyarrow is not installed, or was built without this scheme.
        """
        fs = file_systems()
        chosen = dict(self.settings)
        try:
            if self.scheme == "file":
                return fs.LocalFileSystem()
            if self.scheme == "s3":
                return fs.S3FileSystem(
                    **chosen,
                    request_timeout=_SILENCE_S,
                    connect_timeout=_CONNECT_S,
                    allow_delayed_open=True,  # a small object is one request
                    background_writes=False,  # or all parts of a large one are in memory, waiting
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
                )
            if self.scheme == "gs":
                return fs.GcsFileSystem(**chosen, retry_time_limit=timedelta(seconds=_ATTEMPTS * _SILENCE_S))
            return fs.FileSystem.from_uri(self.url)[0]
        except (ImportError, NotImplementedError, AttributeError):
            raise ArgumentError(f"this pyarrow was built without {self.scheme}://") from None
        except (ValueError, OSError) as error:
            raise ArgumentError(f"{self.url}: {error}") from None


def file_systems() -> Any:
    """The module pyarrow.fs, which is optional.

    Raises:
        ArgumentError: pyarrow is not installed, or cannot be loaded.
    """
    try:
        with forking.importing():
            from pyarrow import fs
    except ImportError as error:
        raise ArgumentError(needs("object storage", "pyarrow", "archive", error)) from None
    return fs


def _check_settings(scheme: str, settings: tuple[tuple[str, str], ...], fragment: str, known: frozenset[str]) -> None:
    if fragment:
        raise ArgumentError("the URL of a place has no fragment: write # as %23")
    if len({name for name, _ in settings}) < len(settings):
        raise ArgumentError("the URL of a place names a setting twice")
    for name, value in settings:
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise ArgumentError(
                f"settings of {scheme}:// that a URL may have: {allowed}. Keys and passwords are never part of it, "
                "since it is stored: give them by the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if not _VALUE.fullmatch(value):
            raise ArgumentError(f"the setting {name} of a place has characters that it may not have")


def _prefix(path: str) -> str:
    prefix = unquote(path).strip("/")
    if prefix and any(part in ("", ".", "..") or not part.isprintable() for part in prefix.split("/")):
        raise ArgumentError("the path of a place has no empty parts, and none that is . or ..")
    return prefix


def _container(scheme: str, netloc: str) -> str:
    user, at, host = netloc.rpartition("@")
    if scheme in ("abfs", "abfss"):  # there the container stands where others have a user
        if not at or not _BUCKET.fullmatch(user) or not _BUCKET.fullmatch(host):
            raise ArgumentError(f"a place in Azure is at {scheme}://container@account.dfs.core.windows.net/prefix")
        return user
    if at:
        raise ArgumentError(
            "the URL of a place holds no user and no password, since it is stored: give them by the environment, as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if not _BUCKET.fullmatch(host):
        raise ArgumentError(f"{scheme}:// is followed by the name of a bucket")
    return host
