"""Files into streams: CSV, JSON lines and plain log lines, with a timestamp as ID where one is named.

    with diskstream.open("data") as store:
        report = Loader(store.stream("taxi"), LoadOptions(timestamps=...)).load([Source("nyc_taxi.csv")])

`diskstream import` is its command.
"""

from diskstream.ingest.begun import Beginning, begun, note_over
from diskstream.ingest.entry_rows import ID_FIELD
from diskstream.ingest.errors import InputChangedError, InputError, InputOrderError, SortingError
from diskstream.ingest.holding import importing
from diskstream.ingest.load import Loader, LoadOptions, LoadReport, keeping_rejects
from diskstream.ingest.resuming import key_of, version_of
from diskstream.ingest.rows import BadRow, Row
from diskstream.ingest.sources import Source, Timestamps
from diskstream.ingest.tables import load_tables, table_format
from diskstream.ingest.times import TimeParser, parse_timezone

__all__ = [
    "ID_FIELD",
    "BadRow",
    "Beginning",
    "InputChangedError",
    "InputError",
    "InputOrderError",
    "LoadOptions",
    "LoadReport",
    "Loader",
    "Row",
    "SortingError",
    "Source",
    "TimeParser",
    "Timestamps",
    "begun",
    "importing",
    "keeping_rejects",
    "key_of",
    "load_tables",
    "note_over",
    "parse_timezone",
    "table_format",
    "version_of",
]
