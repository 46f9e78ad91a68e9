"""Read a store against its checksums: the same as `diskstream verify`, with its options.

python tools/verify.py --dir /data/store
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["verify", *sys.argv[1:]])
