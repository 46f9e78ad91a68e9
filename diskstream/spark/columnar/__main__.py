"""`python -m diskstream.spark.columnar [folder]`: compiles what columnar scans need, and says where it is."""

import sys
from pathlib import Path

from diskstream.errors import DiskstreamError
from diskstream.spark.columnar import compile_jar

if __name__ == "__main__":
    try:
        print(compile_jar(*map(Path, sys.argv[1:2])))
    except (DiskstreamError, OSError) as error:
        sys.exit(str(error))
