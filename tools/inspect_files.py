"""What is on disk, down to bytes: the same as `diskstream inspect`, with its options.

python tools/inspect_files.py --dir /data/store readings --frames
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["inspect", *sys.argv[1:]])
