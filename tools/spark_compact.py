"""The job `compact` for spark-submit, with the options of `diskstream spark compact`.

spark-submit --master spark://host:7077 tools/spark_compact.py --archive /data/archive
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "compact", *sys.argv[1:]])
