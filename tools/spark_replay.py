"""The job `replay` for spark-submit, with the options of `diskstream spark replay`.

spark-submit --master spark://host:7077 tools/spark_replay.py --from /data/archive --dir /data/store
"""

import sys

from diskstream.cli import main

if __name__ == "__main__":
    main(["spark", "replay", *sys.argv[1:]])
