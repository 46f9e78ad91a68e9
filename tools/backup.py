"""Backups of a live store, with the options of `diskstream backup`.

tools/backup.py /backups/store --dir /data/store
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["backup", *sys.argv[1:]])
