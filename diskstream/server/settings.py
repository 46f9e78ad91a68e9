"""The server's settings: their names are those of redis.conf, of the command line's options, and of the environment."""

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diskstream.options import Options
from diskstream.server.config_file import read_config
from diskstream.server.errors import ServeError

__all__ = ["ENVIRONMENT_PREFIX", "ServerSettings", "from_words", "merged", "name_of", "names", "size_of"]

ENVIRONMENT_PREFIX = "DISKSTREAM_"

_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}
_CLIENT_CLASSES = ("normal", "replica", "slave", "pubsub")


def size_of(text: str) -> int:
    """A number of bytes as Redis writes it: ``1gb``, ``64k``, ``100``.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,18})([a-z]*)", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError("must be a number of bytes, as 100, 64kb or 1gb")
    return int(found[1]) * _UNITS[found[2]]


def _yes_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text.lower() == "yes"


def _number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be a number from {low} to {high}")
        return int(text)

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text.lower()

    return parse


def _permissions(text: str) -> str:
    if not re.fullmatch(r"0?[0-7]{1,3}|", text):
        raise ValueError("must be an octal number up to 777")
    return f"{int(text, 8):o}" if text else ""


def _address(text: str) -> str:
    if not text.removeprefix("-"):  # a socket that is bound to no address listens on all of them
        raise ValueError("must be an address, as 127.0.0.1 or ::1")
    return text


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(map(_address, text.split()))


def _output_limit(text: str) -> int | None:
    """The hard limit for normal clients: alone, or as ``normal HARD SOFT SECONDS``; there are no other clients.

    None where other classes are named and not this one: its limit stays what it is.
    """
    words = text.lower().split()
    if words and words[0] in _CLIENT_CLASSES:
        limits = dict(zip(words[0::4], words[1::4], strict=False))
        return size_of(limits["normal"]) if "normal" in limits else None
    return size_of(text)


def _set(parse: Callable[[str], Any], default: Any, help_text: str, **more: Any) -> Any:
    secret = bool(more.get("secret"))  # what is printed for somebody to look at has none
    return field(default=default, repr=not secret, metadata={"parse": parse, "help": help_text, **more})


@dataclass(kw_only=True)
class ServerSettings:
    """What can be set. Each attribute's name with hyphens is the setting's name.

    Attributes are documented by their `help`, which the command line and docs/server.md show; but for

    Attributes:
        ignored: names in the file of settings that mean nothing here.
        config_file: the whole path of that file; empty where there is none.
    """

    dir: str = _set(str, "data", "The directory of the store; database 0 is in it, database N in dbN below it.")
    port: int = _set(
        _number(0, 65535), 6379, "TCP port; 0 is none with --unixsocket or --tls-port, and any free one without."
    )
    bind: tuple[str, ...] = _set(
        _addresses, ("127.0.0.1", "-::1"), "Addresses to listen on; one after a hyphen may fail."
    )
    unixsocket: str = _set(str, "", "Path of a Unix socket to listen on as well.")
    unixsocketperm: str = _set(_permissions, "", "Its permissions, in octal.")
    appendfsync: str = _set(
        _one_of("always", "everysec", "no"), "everysec", "When writes are flushed: always, everysec or no."
    )
    requirepass: str = _set(str, "", "Password that clients must give with AUTH.", changes=True, secret=True)
    protected_mode: bool = _set(_yes_no, True, "Without a password, serve this machine only.", changes=True)
    enable_debug_command: str = _set(
        _one_of("no", "yes", "local"), "no", "Who may call DEBUG, which can hold up all clients: local is this machine."
    )
    maxclients: int = _set(_number(1, 1_000_000), 10_000, "Clients at the same time, at most.", changes=True)
    timeout: int = _set(
        _number(0, 2**31 - 1), 0, "Close clients that are idle for so many seconds; 0 never.", changes=True
    )
    tcp_keepalive: int = _set(_number(0, 2**31 - 1), 300, "Seconds between probes of silent clients; 0 is none.")
    tcp_backlog: int = _set(_number(1, 65535), 511, "Clients that may wait to be accepted.")
    tls_port: int = _set(_number(0, 65535), 0, "TCP port for TLS; 0 is none.")
    tls_cert_file: str = _set(str, "", "The server's certificate, in PEM.")
    tls_key_file: str = _set(str, "", "Its private key, in PEM.")
    tls_ca_cert_file: str = _set(str, "", "Certificates that vouch for clients, in PEM.")
    tls_auth_clients: str = _set(_one_of("yes", "no", "optional"), "yes", "Whether clients need a certificate.")
    client_query_buffer_limit: int = _set(
        size_of, 1 << 30, "Bytes of one client's unfinished requests, at most.", changes=True
    )
    client_output_buffer_limit: int = _set(
        _output_limit, 1 << 30, "Bytes that wait for one client, at most; 0 is no limit.", changes=True
    )
    proto_max_bulk_len: int = _set(size_of, 512 << 20, "Bytes of one word of a request, at most.", changes=True)
    max_open_streams: int = _set(
        _number(1, 100_000), 1024, "Streams kept open, with two descriptors each; more are opened in turn."
    )
    metrics_port: int = _set(_number(0, 65535), 0, "Port for Prometheus; 0 is none.")
    metrics_bind: str = _set(_address, "127.0.0.1", "Address for Prometheus.")
    loglevel: str = _set(
        _one_of("debug", "verbose", "notice", "warning", "nothing"), "notice", "What is logged.", changes=True
    )
    logfile: str = _set(str, "", "File for the log; empty is standard error.")
    stream_node_max_bytes: int = _set(
        size_of, 4096, "Taken and told, without effect: approximate trims count entries alone.", changes=True
    )
    stream_node_max_entries: int = _set(
        _number(0, 2**31 - 1),
        100,
        "Entries of a run, of which approximate trims remove whole ones; 0 is 100.",
        changes=True,
    )
    stream_idmp_duration: int = _set(
        _number(1, 86400),
        100,
        "Seconds for which messages of producers are remembered, in streams that are made from then on.",
        changes=True,
    )
    stream_idmp_maxsize: int = _set(
        _number(1, 10000), 100, "Messages remembered of each producer, likewise.", changes=True
    )
    ignored: tuple[str, ...] = ()
    config_file: str = ""

    @property
    def fsync(self) -> str:
        """The policy in the words of `diskstream.options`."""
        return "os" if self.appendfsync == "no" else self.appendfsync

    def set(self, name: str, text: str) -> None:
        """Sets one by its name.

        Raises:
            ServeError: there is none of that name, or not with that value.
        """
        found = _FIELDS.get(name.lower().replace("_", "-"))
        if found is None:
            near = difflib.get_close_matches(name, _FIELDS, n=1)
            raise ServeError(f"there is no setting {name}", hint=f"did you mean {near[0]}?" if near else None)
        if "\0" in text and not found.metadata.get("changes"):
            raise ServeError(f"{name} has a NUL byte in it, which no path or address can have")
        try:
            value = found.metadata["parse"](text)
        except ValueError as error:
            raise ServeError(f"{name} {error}, not {text!r}") from None
        if value is not None:
            setattr(self, found.name, value)

    def can_change(self, name: str) -> bool:
        """Whether a running server can take another value into use."""
        found = _FIELDS.get(name)
        return found is not None and bool(found.metadata.get("changes"))

    def as_text(self) -> dict[str, str]:
        """All of them, as CONFIG GET shows them."""
        return {name: _shown(getattr(self, found.name)) for name, found in _FIELDS.items()}

    def store_options(self) -> dict[str, Any]:
        """How stores are opened: the arguments of `diskstream.open`."""
        return {"fsync": Options(fsync=self.fsync).fsync, "max_open_streams": self.max_open_streams}


_FIELDS: Mapping[str, "dataclasses.Field[Any]"] = {
    found.name.replace("_", "-"): found for found in dataclasses.fields(ServerSettings) if found.metadata
}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(value) if isinstance(value, tuple) else str(value)


def names() -> dict[str, str]:
    """Every setting, and what it is for."""
    return {name: str(found.metadata["help"]) for name, found in _FIELDS.items()}


def name_of(variable: str) -> str:
    """The setting that an environment variable is for."""
    return variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "-")


def _hint_of(text: str) -> str | None:
    if not text.startswith("tcp://"):
        return None
    return "Kubernetes sets it for a Service named diskstream: enableServiceLinks: false in the pod ends that"


def from_words(words: Mapping[str, str]) -> ServerSettings:
    """Settings by their names.

    Raises:
        ServeError: see `ServerSettings.set`.
    """
    settings = ServerSettings()
    for name, text in words.items():
        settings.set(name, text)
    return settings


def merged(
    options: Mapping[str, str], environment: Mapping[str, str] | None = None, config: Path | None = None
) -> ServerSettings:
    """Settings from everywhere: an option counts more than the environment, and that more than the file.

    Args:
        options: by name, those that were given.
        environment: variables; None takes the process's own. ``DISKSTREAM_PORT`` is ``port``. Those that name no
            setting are for others.
        config: a file in the syntax of redis.conf.

    Raises:
        ServeError: something in them cannot be, or the file cannot be read.
    """
    found = read_config(config, names()) if config is not None else None
    try:
        settings = from_words(found.settings if found is not None else {})
    except ServeError as error:
        raise ServeError(f"{config}: {error}") from None
    if found is not None and config is not None:
        settings.ignored = found.ignored
        settings.config_file = os.fsencode(config.absolute()).decode("utf-8", "backslashreplace")
    for variable, text in (os.environ if environment is None else environment).items():
        if (
            variable.startswith(ENVIRONMENT_PREFIX)
            and name_of(variable) in _FIELDS
            and name_of(variable) not in options
        ):
            try:
                settings.set(name_of(variable), text)
            except ServeError as error:
                raise ServeError(f"environment variable {variable}: {error}", hint=_hint_of(text)) from None
    for name, text in options.items():
        settings.set(name, text)
    return settings
