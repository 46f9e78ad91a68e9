"""The job `archive` for spark-submit, with the options of `diskstream spark archive`.

spark-submit --master spark://host:7077 tools/spark_archive.py --archive /data/archive
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "archive", *sys.argv[1:]])
