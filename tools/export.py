"""Entries of a store as CSV, JSON lines, Arrow or Parquet, with the options of `diskstream export`.

python tools/export.py readings --dir /data/store --output readings.parquet
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["export", *sys.argv[1:]], prog_name="export.py")
