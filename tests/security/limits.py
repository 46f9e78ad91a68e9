"""The table of limits of docs/security.md, made of the constants of the code: ``python -m tests.security.limits``.

Each is checked before what it bounds is believed, allocated or written.
"""

import re
import sys
from pathlib import Path

from diskstream import _native
from diskstream.backups import manifest as backup_manifest
from diskstream.cold import catalogue
from diskstream.commands import dispatch, dumps, globs, key_records, statistics, transactions
from diskstream.engine import cold, cold_cache, directory, files, layouts, lease, names
from diskstream.exporting import manifest as export_manifest
from diskstream.ingest import resuming, rows
from diskstream.object_address import MAX_URL_CHARS
from diskstream.objects import MAX_PATH_CHARS
from diskstream.replaying import conditions
from diskstream.server import config_file, connection, metrics
from diskstream.server.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- limits: written by `python -m tests.security.limits` -->\n", "<!-- end of limits -->\n"


def native(path: str, name: str) -> int:
    """A constant of the Rust code, as its source has it."""
    source = (ROOT / "native" / path).read_text(encoding="utf-8")
    found = re.search(rf"const {name}: \w+ = ([\d_*< ]+);", source)
    assert found is not None, name
    product = 1
    for factor in found[1].replace("_", "").split("*"):
        base, _, shift = factor.partition("<<")
        product *= int(base) << int(shift or 0)
    return product


def size(count: int) -> str:
    """Bytes, in the largest unit that is whole."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift:,} {unit}"
    return f"{count:,} bytes"


def limits() -> list[tuple[str, str]]:
    """What is bounded, and by how much."""
    settings = ServerSettings()
    resp = "core/src/resp.rs"
    return [
        ("clients at a time (`maxclients`)", f"{settings.maxclients:,}"),
        ("a line of a request", size(native(resp, "MAX_LINE_BYTES"))),
        ("words of a request", f"{native(resp, 'MAX_WORDS'):,}"),
        ("words of a request before AUTH, where a password is set", f"{native(resp, 'MAX_WORDS_UNAUTHENTICATED'):,}"),
        ("a word of a request (`proto-max-bulk-len`)", size(settings.proto_max_bulk_len)),
        ("a word of a request before AUTH", size(native(resp, "MAX_WORD_BYTES_UNAUTHENTICATED"))),
        ("unfinished requests of a client (`client-query-buffer-limit`)", size(settings.client_query_buffer_limit)),
        (
            "keys that a client watches",
            f"the limit of unfinished requests, each with {transactions.WATCHED_BYTES} bytes beside its name",
        ),
        ("commands between MULTI and EXEC", f"{dispatch._MAX_QUEUED:,}, and the limit above in bytes"),
        ("replies that wait for a client before no more of its commands run", size(connection.SOFT_OUT_BYTES)),
        ("replies that wait for a client (`client-output-buffer-limit`)", size(settings.client_output_buffer_limit)),
        ("replies that wait for a client before AUTH", size(connection.UNKNOWN_OUT_BYTES)),
        ("the server's file of settings (`--config`)", size(config_file.MAX_CONFIG_BYTES)),
        ("scrapers of the metrics at a time", str(metrics.MAX_SCRAPERS)),
        ("a pattern of KEYS, SCAN, CONFIG GET", size(globs._MAX_BYTES)),
        ("codes of errors that INFO lists", str(statistics.MAX_CODES)),
        ("lists within lists of a reply", str(native("python/src/replies.rs", "MAX_DEPTH"))),
        ("what DUMP makes and RESTORE unpacks, as JSON", size(dumps.MAX_DUMP_BYTES)),
        ("a key that is no stream: its name, its value", size(key_records.MAX_VALUE_BYTES)),
        ("the name of a stream, of a group, of a consumer", size(names.MAX_NAME_BYTES)),
        ("an entry", size(_native.MAX_ENTRY_BYTES)),
        ("fields of an entry", f"{native('core/src/rows.rs', 'MAX_FIELDS'):,}"),
        ("a frame of a log", size(layouts.MAX_PAYLOAD_BYTES)),
        ("a snapshot of a stream's state", size(layouts.MAX_SNAPSHOT_BYTES)),
        ("a log file that is opened", size(files.MAX_LOG_BYTES)),
        ("entries of a node of a sealed segment", f"{native('core/src/node.rs', 'MAX_NODE_ENTRIES'):,}"),
        ("a node, unpacked", size(native("core/src/node.rs", "MAX_NODE_RAW_BYTES"))),
        ("a block of frames of an audit file, unpacked", size(native("core/src/audit.rs", "MAX_FRAMES_RAW_BYTES"))),
        ("the names of an audit file, unpacked", size(native("core/src/audit.rs", "MAX_BLOCK_RAW_BYTES"))),
        ("groups of a stream", f"{_native.MAX_GROUPS:,}"),
        ("consumers of a group", f"{_native.MAX_CONSUMERS:,}"),
        ("names of a stream's groups and consumers together", size(_native.MAX_NAMES_BYTES)),
        ("pending entries of a stream", f"{native('core/src/groups.rs', 'MAX_PENDING'):,}"),
        ("producers that a stream remembers", f"{native('core/src/idempotence.rs', 'MAX_PRODUCERS'):,}"),
        ("writers that a stream remembers", f"{native('core/src/commits.rs', 'MAX_WRITERS'):,}"),
        ("settings of a stream", f"{native('core/src/settings.rs', 'MAX_SETTINGS')}"),
        ("a setting of a stream", size(_native.MAX_SETTING_BYTES)),
        ("`store.json` of a store", size(directory._MAX_STORE_JSON_BYTES)),
        ("`lease.json` of a lease", size(lease._MAX_LEASE_BYTES)),
        ("a stub of a cold segment", size(cold.MAX_STUB_BYTES)),
        ("an object of a cold segment", size(cold.MAX_OBJECT_BYTES)),
        ("what is read back of one into memory, on a disk without room for it", size(cold_cache.MAX_IN_MEMORY_BYTES)),
        ("a record of the catalogue of cold segments", size(catalogue.MAX_RECORD_BYTES)),
        ("the URL of a place; a path below it", f"{MAX_URL_CHARS:,} characters; {MAX_PATH_CHARS}"),
        ("a line of a backup's manifest", size(backup_manifest._MAX_LINE_BYTES)),
        ("the manifest of an export", size(export_manifest._MAX_BYTES)),
        ("rows that one import adds to a stream", f"{resuming.MAX_ROWS:,}"),
        *((f"a row that is imported, of `{kind}`", size(most)) for kind, most in rows.MAX_ROW_BYTES.items()),
        (
            "the pattern of a condition of a replay; what it is looked for in",
            f"{conditions.MAX_PATTERN:,} characters; {size(conditions.MAX_SEARCHED_BYTES)}",
        ),
    ]


def table() -> str:
    """The table, as the page has it."""
    lines = ["| what | limit |", "| --- | --- |", *(f"| {what} | {limit} |" for what, limit in limits())]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the table of the present constants."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
