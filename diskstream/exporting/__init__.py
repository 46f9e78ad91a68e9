"""Entries out of a store: CSV, JSON lines, Arrow and Parquet, into one file, a pipe, or a directory of parts.

    with diskstream.open("data", read_only=True) as store:
        report = export_file(store, ExportRequest([b"taxi"], "parquet"), Path("taxi.parquet"))

`diskstream export` is its command. Memory is bounded, whatever is exported: a few pieces of 8 MiB at a time.
"""

from diskstream.exporting.directory import export_directory
from diskstream.exporting.report import ExportReport
from diskstream.exporting.request import COMPRESSIONS, FORMATS, MAX_COLUMNS, Column, ExportRequest, parse_columns
from diskstream.exporting.single import export_file, export_pipe

__all__ = [
    "COMPRESSIONS",
    "FORMATS",
    "MAX_COLUMNS",
    "Column",
    "ExportReport",
    "ExportRequest",
    "export_directory",
    "export_file",
    "export_pipe",
    "parse_columns",
]
