"""`diskstream archive` as a program: streams of a Redis moved to disk.

python tools/archive.py --from redis://localhost --key 'orders:*' --to /data/orders --trim
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["archive", *sys.argv[1:]])
