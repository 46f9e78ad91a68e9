"""Merge small segments, and drop the bytes of entries that are gone: `diskstream compact` as a program.

python tools/compact.py --dir /data/store
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["compact", *sys.argv[1:]])
