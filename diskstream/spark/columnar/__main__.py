"""`python -m diskstream.spark.columnar [folder]`: compiles what columnar scans need, and says where it is."""

import sys
from pathlib import Path

from diskstream.errors import DiskstreamError
from diskstream.spark.columnar import compile_jar

if __name__ == "__main__":
    try:
        sys.stdout.write(f"{compile_jar(*map(Path, sys.argv[1:2]))}\n")
    except (DiskstreamError, OSError) as error:
        sys.exit(str(error))
