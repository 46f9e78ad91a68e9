"""`spark-submit tools/spark_profile.py …`: what `diskstream spark profile` does, as a program for a cluster."""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "profile", *sys.argv[1:]], prog_name="diskstream")
