"""Entries sent again, with the options of `diskstream replay`.

tools/replay.py orders --dir /data/store --to stream:orders@/data/test --speed 10
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["replay", *sys.argv[1:]])
