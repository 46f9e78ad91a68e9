"""Compares the stubs of the native core with what was built: mypy's stubtest, for a module with several stub files.

The further files stand for no modules of their own: here they are compared with the same native module.
"""

import sys

from mypy import stubtest

import diskstream._native

NAMES = ["audit", "packing", "segments", "wire"]
PARTS = [f"diskstream._native_{name}" for name in NAMES]


def main() -> int:
    """Returns 0 where stubs and native core agree."""
    for part in PARTS:
        sys.modules[part] = diskstream._native
    config = ["--mypy-config-file", "pyproject.toml"]
    whole = stubtest.test_stubs(stubtest.parse_options([*config, "diskstream._native"]))
    # What a part does not have is in another one.
    parts = stubtest.test_stubs(stubtest.parse_options([*config, "--ignore-missing-stub", *PARTS]))
    return whole or parts


if __name__ == "__main__":
    sys.exit(main())
