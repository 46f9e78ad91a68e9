"""A slow reader of stores in plain Python, written from the pages in docs/format/ alone.

It opens files, changes nothing, believes nothing, and gives the live entries of a stream and its counters. It shares
no code with diskstream, so that each can be held against the other: `tests/test_format.py` does.
`tests/test_docs_format.py` holds `layouts.py` against the tables of the pages.
"""

from tests.slow_reader.store import SlowStore
from tests.slow_reader.stream import SlowStream
from tests.slow_reader.wire import FormatError, NewerError, RottenError

__all__ = ["FormatError", "NewerError", "RottenError", "SlowStore", "SlowStream"]
