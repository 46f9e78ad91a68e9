"""`spark-submit tools/spark_rollup.py …`: what `diskstream spark rollup` does, as a program for a cluster."""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "rollup", *sys.argv[1:]], prog_name="diskstream")
