"""Compares the stubs of the native core with what was built: mypy's stubtest, for a module whose stub is in two files.

The second file stands for no module of its own: here it is compared with the same native module.
"""

import sys

from mypy import stubtest

import diskstream._native

PARTS = ["diskstream._native_audit", "diskstream._native_segments"]


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
