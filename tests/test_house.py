"""The house rules of CONTRIBUTING.md, those that a machine can check. Each failure names file and line."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
# A name that says nothing about its contents collects everything.
FORBIDDEN_STEMS = {"common", "helpers", "misc", "util", "utils"}

# What stands beside the folders of the code. What a program leaves where it runs (dump.rdb) came in unseen, twice.
ROOT_FILES = {".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"}

# The layers, and which of them each may import: the arrows of CONTRIBUTING.md. A module of diskstream/ that is not
# named here belongs to "streams". The folders beside diskstream/ are layers of their own.
LAYERS = {
    "words": {"errors", "ids", "options", "plurals"},  # what every layer speaks in
    "engine": {"engine"},
    "commands": {"commands"},
    "operations": {"archiving", "backups", "cold", "exporting", "ingest", "replaying"},  # whole streams, moved
    "programs": {"__main__", "cli", "compat", "server", "spark"},
    "native": {"_native"},
}
MAY_IMPORT = {
    "words": {"words", "native"},
    "engine": {"words", "engine", "native"},
    "streams": {"words", "engine", "streams", "native"},
    "commands": {"words", "streams", "commands", "native"},
    "operations": {"words", "streams", "operations"},
    "programs": {"words", "streams", "commands", "operations", "programs"},
    "tools": {"words", "streams", "operations", "programs", "tools"},
    "bench": {"words", "streams", "operations", "programs", "tools", "bench"},
    "tests": {"words", "engine", "streams", "commands", "operations", "programs", "tools", "bench", "tests", "native"},
}

# Comments, strings and characters of Rust: what is not code. A lifetime ('a) is no character.
RUST_NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\[^\n]+?|[^'\\])'""",
    re.DOTALL,
)
RUST_TEST_MODULE = re.compile(r"""#\[cfg\(test\)\]\s*(?:#\[path\s*=\s*"(?P<path>[^"]+)"\]\s*)?mod\s+(?P<name>\w+);""")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def rust_files(*crates: str) -> list[Path]:
    return sorted(path for crate in crates for path in (ROOT / "native").glob(f"{crate}/src/**/*.rs"))


OURS = "diskstream", "diskstream_command", "pyspark_diskstream", "tools", "bench"
PYTHON_FILES = python_files(*OURS, "tests")
RUST_FILES = rust_files("*")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def assert_none(offences: Iterable[str]) -> None:
    if found := list(offences):
        pytest.fail("\n".join(found), pytrace=False)


# --- sizes and names --------------------------------------------------------------------------------------------------


def test_the_walk_finds_files() -> None:
    assert Path(__file__).resolve() in PYTHON_FILES
    assert RUST_FILES


def test_files_are_short() -> None:
    sizes = ((path, len(path.read_text(encoding="utf-8").splitlines())) for path in PYTHON_FILES + RUST_FILES)
    assert_none(
        f"{at(path, lines)}: {lines} lines, at most {MAX_FILE_LINES}" for path, lines in sizes if lines > MAX_FILE_LINES
    )


def functions(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    assert_none(
        f"{at(path, node.lineno)}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        for path in PYTHON_FILES
        for node, lines in functions(path)
        if lines > MAX_FUNCTION_LINES
    )


def test_names_of_files_say_something() -> None:
    assert_none(
        f"{at(path, 1)}: name the file after the one thing that it holds"
        for path in PYTHON_FILES + RUST_FILES
        if {path.stem, path.parent.name} & FORBIDDEN_STEMS
    )


@pytest.mark.skipif(
    which("git") is None or not (ROOT / ".git").exists(), reason="only git says which files are the project's"
)
def test_nothing_that_a_program_left_behind_is_part_of_the_project() -> None:
    list_files = ["git", "-c", "safe.directory=*", "ls-files"]  # also of a checkout that is another user's
    listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {path for path in listed.splitlines() if "/" not in path}
    assert_none(f"{name}: what is it for? ROOT_FILES has what may stand here" for name in sorted(tracked - ROOT_FILES))
    assert_none(f"{name}: it is in ROOT_FILES, and not there" for name in sorted(ROOT_FILES - tracked))


# --- which way the arrows point ---------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str | None:
    """The layer of a module of ours; None for the modules of others."""
    top, _, rest = module.partition(".")
    if top != "diskstream":
        return top if top in MAY_IMPORT else None
    name = rest.partition(".")[0]
    return next((layer for layer, names in LAYERS.items() if name in names), "streams")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Each imported module of a file by its full name, with its line. `from package import name` may name a module."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module_name(path).split(".")
                up = node.level - (path.stem == "__init__")
                base = ".".join([*package[: len(package) - up], *([base] if base else [])])
            for alias in node.names:
                yield (f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base), node.lineno


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyi"))


def wrong_arrows(path: Path) -> Iterator[str]:
    source = layer(module_name(path))
    assert source is not None, path
    for module, line in imports(path):
        target = layer(module)
        if target is not None and target not in MAY_IMPORT[source]:
            yield f"{at(path, line)}: {source} may not import {module} ({target})"


@pytest.mark.parametrize(
    "source", ["words", "engine", "streams", "commands", "operations", "programs", "tools", "bench", "tests"]
)
def test_imports_follow_the_arrows(source: str) -> None:
    files = [path for path in PYTHON_FILES if layer(module_name(path)) == source]
    assert_none(offence for path in files for offence in wrong_arrows(path))


# --- Python -----------------------------------------------------------------------------------------------------------


def test_public_modules_have_a_docstring() -> None:
    def is_public(path: Path) -> bool:
        return not path.stem.startswith("_") or path.stem in {"__init__", "__main__"}

    assert_none(
        f"{at(path, 1)}: no docstring"
        for path in python_files("diskstream", "tools", "bench")
        if is_public(path) and not ast.get_docstring(tree(path))
    )


def exports(path: Path) -> Iterator[tuple[list[str], int]]:
    for node in tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                yield list(ast.literal_eval(node.value)), node.lineno


def in_order(names: list[str]) -> list[str]:
    """Constants, then classes, then the rest: the order that the linter keeps too."""
    return sorted(set(names), key=lambda name: (len(name) < 2 or not name.isupper(), not name[:1].isupper(), name))


def test_exports_are_sorted() -> None:
    assert_none(
        f"{at(path, line)}: __all__ is not in order or names something twice"
        for path in PYTHON_FILES
        for names, line in exports(path)
        if names != in_order(names)
    )


def test_what_is_imported_from_a_module_stands_in_its_exports() -> None:
    """An error that did not was in no tree and on no page: both go by what is exported."""
    listed = {module_name(path): {each for names, _ in exports(path) for each in names} for path in python_files(*OURS)}
    assert_none(
        f"{at(path, node.lineno)}: {alias.name} is not in the __all__ of {node.module}"
        for path in python_files(*OURS)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module and listed.get(node.module)
        for alias in node.names
        if alias.name not in listed[node.module] and not is_module(f"{node.module}.{alias.name}")
    )


def defined(node: ast.AST) -> Iterator[str]:
    """Names that a definition or an assignment makes, those of attributes too."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.id if isinstance(node, ast.Name) else node.attr


def read(node: ast.AST) -> Iterator[str]:
    """Names that are looked up, also by `getattr` and in annotations that are text."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.id if isinstance(node, ast.Name) else node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from re.findall(r"\w+", node.value)


def test_no_private_name_is_left_that_nothing_reads() -> None:
    """What is private is for the package alone: unread there, it is left over from something that is gone."""
    nodes = [(path, node) for path in python_files(*OURS) for node in ast.walk(tree(path))]
    known = {name for _, node in nodes for name in read(node)}
    assert_none(
        f"{at(path, getattr(node, 'lineno', 1))}: nothing reads {name}"
        for path, node in nodes
        for name in defined(node)
        if re.match(r"_[^_]", name) and name not in known
    )


def test_each_exception_from_a_lint_is_explained_on_its_line() -> None:
    bare = re.compile(r"# (?:noqa: [A-Z0-9, ]+|noqa|type: ignore(?:\[[a-z, -]+\])?)$")
    assert_none(
        f"{at(path, number)}: say why, behind {found[0]}"
        for path in PYTHON_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := bare.search(line))
    )


def test_no_folder_that_cannot_be_listed_counts_as_empty() -> None:
    """`Path.glob` is silent where it may not list, and from Python 3.13 on whatever keeps it from listing."""
    assert_none(
        f"{at(path, node.lineno)}: diskstream.engine.looks lists folders, and says where it cannot"
        for path in python_files("diskstream", "tools")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"glob", "rglob"}
    )


def test_tests_do_not_sleep() -> None:
    """A test that sleeps is slow on a quiet machine and fails on a busy one: wait for the event itself."""

    def is_sleep(call: ast.Call) -> bool:
        name = call.func
        return (isinstance(name, ast.Attribute) and name.attr == "sleep") or (
            isinstance(name, ast.Name) and name.id == "sleep"
        )

    assert_none(
        f"{at(path, node.lineno)}: wait for what should happen, not for time to pass"
        for path in python_files("tests")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and is_sleep(node)
    )


# --- Rust -------------------------------------------------------------------------------------------------------------


def rust_code(path: Path) -> str:
    """The file with comments and literals blanked out, lines kept."""
    return RUST_NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), path.read_text(encoding="utf-8"))


def without_test_blocks(code: str) -> str:
    """The code with what stands under #[cfg(test)] blanked out, lines kept."""
    while start := re.search(r"#\[cfg\(test\)\]", code):
        end = item_end(code, start.end())
        code = code[: start.start()] + re.sub(r"[^\n]", " ", code[start.start() : end]) + code[end:]
    return code


def item_end(code: str, start: int) -> int:
    """Where the item that begins at `start` ends: after its block, or after its semicolon where it has none."""
    depth = 0
    for match in re.compile(r"[{};]").finditer(code, start):
        depth += {"{": 1, "}": -1, ";": 0}[match[0]]
        if depth == 0:
            return match.end()
    return len(code)


def rust_test_files(crate: str) -> set[Path]:
    """Files included for tests only: `#[cfg(test)] mod tests;`, with or without a path."""
    found = set()
    for path in rust_files(crate):
        inner = path.parent if path.stem in {"lib", "mod"} else path.parent / path.stem
        for match in RUST_TEST_MODULE.finditer(path.read_text(encoding="utf-8")):
            found.add(path.parent / match["path"] if match["path"] else inner / f"{match['name']}.rs")
    return found


def matches(pattern: str, code: str, path: Path) -> Iterator[str]:
    for match in re.finditer(pattern, code):
        yield f"{at(path, code.count(chr(10), 0, match.start()) + 1)}: {match[0]}"


@pytest.mark.parametrize("crate", ["core", "python"])
def test_crates_forbid_unsafe_code(crate: str) -> None:
    path = ROOT / "native" / crate / "src" / "lib.rs"
    if "#![forbid(unsafe_code)]" not in rust_code(path):
        pytest.fail(f"{at(path, 1)}: #![forbid(unsafe_code)] is missing", pytrace=False)


def test_unsafe_is_in_sys_only() -> None:
    others = [path for path in RUST_FILES if path.relative_to(ROOT / "native").parts[0] != "sys"]
    assert_none(offence for path in others for offence in matches(r"\bunsafe\b", rust_code(path), path))


def test_core_cannot_panic_by_unwrap() -> None:
    """What is read from a disk is never trusted: a wrong byte is an error that says where, not a panic."""
    assert_none(
        offence
        for path in sorted(set(rust_files("core")) - rust_test_files("core"))
        for offence in matches(r"\.unwrap\(\)|\.expect\(", without_test_blocks(rust_code(path)), path)
    )
