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
    stream_adding,
    stream_group_reading,
    stream_groups,
    stream_info,
    stream_pending,
    stream_reading,
    transactions,
)
from diskstream.commands.table import Command, Table, table_of

__all__ = ["table"]

_LISTED = (
    stream_adding.COMMANDS,
    stream_group_reading.COMMANDS,
    stream_groups.COMMANDS,
    stream_info.COMMANDS,
    stream_pending.COMMANDS,
    stream_reading.COMMANDS,
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
    known.update(table_of(*_LISTED))
    for module in (access, introspection, transactions):
        known.update(table_of(module.commands(known)))
    return MappingProxyType(known)
