"""A store out of a backup, or streams back into a Redis: the same as `diskstream restore`, with its options.

python tools/restore.py /backups/orders --to /data/orders
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["restore", *sys.argv[1:]])
