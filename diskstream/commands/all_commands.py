"""All commands, by name."""

from types import MappingProxyType

from diskstream.commands import (
    access,
    clients,
    connection,
    introspection,
    key_about,
    key_copies,
    key_expiry,
    key_names,
    key_values,
    server_control,
    server_info,
    settings,
    transactions,
)
from diskstream.commands.table import Command, Table, table_of

__all__ = ["table"]

# The commands on streams: `COMMANDS` of each module of theirs.
STREAMS: tuple[tuple[Command, ...], ...] = ()

_OTHERS = (
    clients.COMMANDS,
    connection.COMMANDS,
    key_about.COMMANDS,
    key_copies.COMMANDS,
    key_expiry.COMMANDS,
    key_names.COMMANDS,
    key_values.COMMANDS,
    server_control.COMMANDS,
    server_info.COMMANDS,
    settings.COMMANDS,
)


def table() -> Table:
    """The table of all commands; those that tell of others, or call them, know this one."""
    known: dict[str, Command] = {}
    known.update(table_of(*STREAMS, *_OTHERS))
    for module in (access, introspection, transactions):
        known.update(table_of(module.commands(known)))
    return MappingProxyType(known)
