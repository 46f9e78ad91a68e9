"""Sealed segments to object storage and back, with the verbs and options of `diskstream cold`.

python tools/cold.py move race:france --to s3://bucket/prefix --older-than 30d --dir data
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["cold", *sys.argv[1:]])
