"""XINFO: what there is to know of a stream, its groups and their consumers."""

from diskstream.commands.arguments import Words
from diskstream.commands.begun_anew import begun_anew
from diskstream.commands.caller import Caller
from diskstream.commands.failures import c_text, no_key
from diskstream.commands.help import help_of
from diskstream.commands.replies import Failure, Map, Reply
from diskstream.commands.stream_read_options import bounded, most_bytes
from diskstream.commands.table import Command
from diskstream.group_info import FullConsumer, FullGroup
from diskstream.info import StreamSummary
from diskstream.stream import Stream

__all__ = ["COMMANDS"]

_HELP = """\
CONSUMERS <key> <groupname>
    Show consumers of <groupname>.
GROUPS <key>
    Show the stream consumer groups.
STREAM <key> [FULL [COUNT <count>]
    Show information about the stream."""
# Entries of a node of Redis's radix tree, of which XINFO counts what a stream has.
_NODE_ENTRIES = 100
_SHOWN = 10


def _existing(caller: Caller, key: bytes) -> Stream:
    stream = caller.keyspace.stream(caller.database, key)
    if not stream.exists():
        raise no_key()
    return stream


def _head(info: StreamSummary) -> list[tuple[Reply, Reply]]:
    keys = -(-info.length // _NODE_ENTRIES)
    return [
        (b"length", info.length),
        (b"radix-tree-keys", keys),
        (b"radix-tree-nodes", max(1, keys)),
        (b"last-generated-id", info.last_generated_id),
        (b"max-deleted-entry-id", info.max_deleted_entry_id),
        (b"entries-added", info.entries_added),
        (b"recorded-first-entry-id", info.recorded_first_entry_id),
        (b"idmp-duration", info.idmp_duration_s),
        (b"idmp-maxsize", info.idmp_max_size),
        (b"pids-tracked", info.producers_tracked),
        (b"iids-tracked", info.messages_tracked),
        (b"iids-added", info.messages_added),
        (b"iids-duplicates", info.messages_duplicate),
    ]


def _stream(caller: Caller, given: list[bytes]) -> Reply:
    stream = _existing(caller, given[2])
    if len(given) > 3:  # XINFO STREAM key FULL ...
        return _full(caller, stream, given)
    info = stream.summary()
    tail = [(b"groups", info.groups), (b"first-entry", info.first_entry), (b"last-entry", info.last_entry)]
    return Map([*_head(info), *tail])


def _full(caller: Caller, stream: Stream, given: list[bytes]) -> Reply:
    words, count = Words(given, 3), _SHOWN
    wrong = b"ERR unknown subcommand or wrong number of arguments for '%s'. Try XINFO HELP." % given[1]
    if words.take_option() != b"FULL":
        raise Failure(wrong)
    if words:
        if words.take_option() != b"COUNT" or words.left != 1:
            raise Failure(wrong)
        count = words.take_int()
    most = most_bytes(caller, count or None) if count >= 0 else None
    if most is not None:  # looked at before all of it is in memory
        begun_anew(lambda: bounded(iter(stream.range("-", "+", count or None)), most))
    info, full = stream.summary(), stream.info_full(count if count >= 0 else _SHOWN)
    return Map([*_head(info), (b"entries", full.entries), (b"groups", [_full_group(each) for each in full.groups])])


def _full_group(group: FullGroup) -> Reply:
    return Map(
        [
            (b"name", group.name),
            (b"last-delivered-id", group.last_delivered_id),
            (b"entries-read", group.entries_read),
            (b"lag", group.lag),
            (b"pel-count", group.pel_count),
            (b"nacked-count", group.nacked_count),
            (b"pending", [[one.id, one.consumer, one.delivered_ms, one.deliveries] for one in group.pending]),
            (b"consumers", [_full_consumer(each) for each in group.consumers]),
        ]
    )


def _full_consumer(consumer: FullConsumer) -> Reply:
    return Map(
        [
            (b"name", consumer.name),
            (b"seen-time", consumer.seen_ms),
            (b"active-time", -1 if consumer.active_ms is None else consumer.active_ms),
            (b"pel-count", consumer.pel_count),
            (b"pending", [[one.id, one.delivered_ms, one.deliveries] for one in consumer.pending]),
        ]
    )


def _groups(caller: Caller, given: list[bytes]) -> Reply:
    return [
        Map(
            [
                (b"name", group.name),
                (b"consumers", group.consumers),
                (b"pending", group.pending),
                (b"last-delivered-id", group.last_delivered_id),
                (b"entries-read", group.entries_read),
                (b"lag", group.lag),
            ]
        )
        for group in _existing(caller, given[2]).groups()
    ]


def _consumers(caller: Caller, given: list[bytes]) -> Reply:
    key, name = given[2], given[3]
    group = _existing(caller, key).group(name, create=False)
    if not group.exists():
        raise Failure(b"NOGROUP No such consumer group '%s' for key name '%s'" % (c_text(name), c_text(key)))
    return [
        Map(
            [
                (b"name", each.name),
                (b"pending", each.pending),
                (b"idle", each.idle_ms),
                (b"inactive", -1 if each.inactive_ms is None else each.inactive_ms),
            ]
        )
        for each in group.consumers()
    ]


_READ = frozenset({"readonly"})
_KEY = (2, 2, 1)
_BELOW = (
    Command("xinfo|consumers", 4, _consumers, _READ, _KEY, summary="The consumers of a group."),
    Command("xinfo|groups", 3, _groups, _READ, _KEY, summary="The groups of a stream."),
    Command("xinfo|stream", -3, _stream, _READ, _KEY, summary="A stream, or all of its state."),
    help_of("xinfo", _HELP),
)
COMMANDS = (
    Command(
        "xinfo",
        -2,
        None,
        summary="Streams, groups and consumers.",
        subcommands={each.name.partition("|")[2]: each for each in _BELOW},
    ),
)
