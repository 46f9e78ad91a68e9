"""docs/security.md says what the code does: its limits are the code's, its tests exist, its unit is hardened."""

import re
from pathlib import Path

import pytest

from tests.security import limits

PAGE = limits.PAGE.read_text(encoding="utf-8")


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert limits.table() in PAGE, "python -m tests.security.limits writes them anew"
    assert limits.written(PAGE) == PAGE
    assert limits.written(PAGE.replace("| a line of a request | 64 KiB |", "| a line | 9 |")) == PAGE
    assert len(dict(limits.limits())) == len(limits.limits()) > 30


def test_each_test_that_the_page_names_exists() -> None:
    """`file::test` names a test; `::test` one of a file of this folder."""
    named = re.findall(r"`((?:tests/)?[a-z_/]*\.py)?(?:::(test_\w+))?`", PAGE)
    files = [file for file, test in named if file]
    tests = [test for _, test in named if test]
    assert len(files) > 10
    assert len(tests) > 20
    folders = [Path(__file__).parent, *(limits.ROOT / "tests" / name for name in ("server", "spark"))]
    known = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("test_*.py"))
    assert [test for test in tests if f"def {test}(" not in known] == []
    for file in files:
        places = (limits.ROOT / file, Path(__file__).parent / file)
        assert any(place.is_file() for place in places), file


@pytest.mark.parametrize("page", ["README.md", "docs/server.md", "docs/dependencies.md"])
def test_the_page_is_linked_to(page: str) -> None:
    assert "security.md" in (limits.ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (limits.ROOT / "docs" / link).exists(), link


def test_the_unit_gives_the_server_no_more_than_it_needs() -> None:
    unit = (limits.ROOT / "docs" / "diskstream.service").read_text(encoding="utf-8")
    for line in (
        *("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes"),
        *("PrivateDevices=yes", "CapabilityBoundingSet=", "RestrictNamespaces=yes", "SystemCallFilter=@system-service"),
        *("ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectControlGroups=yes", "UMask=0027"),
        *("RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "LockPersonality=yes", "RestrictRealtime=yes"),
    ):
        assert f"\n{line}\n" in unit, line
    assert not re.search(r"requirepass", unit.replace("# ", ""), re.IGNORECASE) or "EnvironmentFile=" in unit
    assert "--requirepass" not in unit
