"""The job `reconcile` for spark-submit, with the options of `diskstream spark reconcile`.

spark-submit --master spark://host:7077 tools/spark_reconcile.py --archive /data/archive
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "reconcile", *sys.argv[1:]])
