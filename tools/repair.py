"""Make a damaged store open again: the same as `diskstream repair`, with its options.

python tools/repair.py --dir /data/store
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["repair", *sys.argv[1:]])
