"""That no text can say `1 entries`: a number before a plural comes from `number_of`, but where it is a constant."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_house import PYTHON_FILES, ROOT, RUST_FILES, at, tree

_PLURAL = re.compile(
    r" (?!streams must )"
    r"(?:(?!and |at |between |by |for |from |has |holds |in |is |lists |of |on |or |to |was |with )[a-z]+ ){0,2}"
    r"(?:bytes|columns|consumers|directories|entries|faults|fields|files|frames|groups|items|nodes|objects|positions"
    r"|records|rows|segments|slices|streams|values|windows)\b(?!/)"
)
_SAYS = [path for path in PYTHON_FILES if path.is_relative_to(ROOT / "diskstream") and "demo" not in path.parts]


def _is_constant(value: ast.expr) -> bool:
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
    return bool(names) and all(name.isupper() for name in names)


def _is_said(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "number_of"


def _may_say_one(path: Path) -> Iterator[str]:
    for text in ast.walk(tree(path)):
        if not isinstance(text, ast.JoinedStr):
            continue
        for part, rest in zip(text.values, text.values[1:], strict=False):
            if not isinstance(part, ast.FormattedValue) or not isinstance(rest, ast.Constant):
                continue
            follows = _PLURAL.match(str(rest.value))
            if (
                follows
                and "over the limit" not in str(rest.value)
                and not _is_constant(part.value)
                and not _is_said(part.value)
            ):
                yield f"{at(path, text.lineno)}: {{{ast.unparse(part.value)}}}{follows[0]}"


def _rust_may_say_one(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith("//"):
            for part in re.finditer(r"\{([^{}]*)\}(?=( .*))", line):
                follows = _PLURAL.match(part[2])
                if follows:
                    yield f"{at(path, number)}: {part[0]}{follows[0]}"


def test_a_number_before_a_plural_may_be_one() -> None:
    found = [offence for path in _SAYS for offence in _may_say_one(path)]
    found += [offence for path in RUST_FILES if "fuzz" not in path.parts for offence in _rust_may_say_one(path)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
