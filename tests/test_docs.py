"""The pages for users run as they are written, and their numbers are those of the code."""

import fnmatch
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

import diskstream
from diskstream import _native, group, retainer, retaining, steady_clock
from diskstream.cli import main
from diskstream.engine import names
from tests.slow_reader import layouts

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GROUPS = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
RETENTION = (ROOT / "docs" / "retention.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def printed(program: str, folder: Path) -> str:
    """What a program of a page prints; it has fifteen lines at most."""
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    folder.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_fifteen_lines_run(tmp_path: Path) -> None:
    first, second, third = blocks(README, "python")
    lines = printed(first, tmp_path).splitlines()
    assert "b'Castilla'" in lines[0]
    assert "b'Norem'" in lines[1]
    assert lines[-1] == "3 3 True"
    assert printed(second, tmp_path) == "b'ann'\nb'ann' 1\nb'bob' 0\nb'eve' 0\nb'joe' 0\n0 0\n"
    assert printed(third, tmp_path) == "lamp 1\n"


def test_the_programs_of_the_page_on_groups_print_what_it_says(tmp_path: Path) -> None:
    programs, outputs = blocks(GROUPS, "python"), blocks(GROUPS, "text")
    assert len(programs) == len(outputs) > 5
    for number, (program, output) in enumerate(zip(programs, outputs, strict=True)):
        assert printed(program, tmp_path / str(number)) == output


def test_the_programs_of_the_page_on_retention_print_what_it_says(tmp_path: Path) -> None:
    programs, outputs = blocks(RETENTION, "python"), blocks(RETENTION, "text")
    assert len(programs) == len(outputs) > 1
    for number, (program, output) in enumerate(zip(programs, outputs, strict=True)):
        assert printed(program, tmp_path / str(number)) == output


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("`retention_interval_ms` ({:,} unless told otherwise", diskstream.Options().retention_interval_ms),
        ("removes more than {:,} entries", retaining.DEFAULT_LIMIT),
        ("to plan {} entries", retaining._INSIDE_LIMIT),
        ("| a rule, as JSON | {:,} bytes |", _native.MAX_SETTING_BYTES),
        ("| settings of a stream | {},", layouts.MAX_SETTINGS),
        ("steadily for {} minutes", {600_000: "ten"}[steady_clock.STEADY_MS]),
        ("ahead by more than {}", {60_000: "a minute"}[steady_clock.STEP_MS]),
        ("at most {} minutes", {300.0: "five"}[retainer._LONGEST_RETRY_S]),
    ],
)
def test_the_numbers_of_the_page_on_retention_are_those_of_the_code(words: str, number: int | str) -> None:
    assert words.format(number) in " ".join(RETENTION.split())


def test_the_commands_of_the_page_on_retention_run(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "data") as store:
        store.stream("readings").add({"n": 1})
        store.stream("history").add({"n": 1})
    commands = re.findall(r"^\$ diskstream (.*)$", RETENTION, flags=re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        program = [sys.executable, "-c", "from diskstream.cli import main; main()", *command.split()]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)


def native_constant(path: str, name: str) -> int:
    source = (ROOT / "native" / path).read_text(encoding="utf-8")
    found = re.search(rf"const {name}: \w+ = ([\d_< ]+);", source)
    assert found is not None
    base, _, shift = found[1].replace("_", "").partition("<<")
    return int(base) << int(shift or 0)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("| groups of a stream | {:,} |", _native.MAX_GROUPS),
        ("| consumers of a group | {:,} |", _native.MAX_CONSUMERS),
        ("all groups together | {:,} |", native_constant("core/src/groups.rs", "MAX_PENDING")),
        ("one read gives | {:,} |", native_constant("python/src/deliver.rs", "MOST")),
        ("producers, messages | {:,} bytes each, any bytes |", _native.MAX_NAME_BYTES),
        ("| {} MiB of a stream |", _native.MAX_NAMES_BYTES >> 20),
        ("| producers remembered | {:,} of a stream", native_constant("core/src/idempotence.rs", "MAX_PRODUCERS")),
        ("| consumers that wait in order | {} of a stream |", native_constant("sys/src/queue.rs", "PLACES")),
        ("up to {} of them on a stream", native_constant("sys/src/queue.rs", "PLACES")),
        ("left for {} milliseconds", native_constant("sys/src/queue.rs", "PROMISE_MS")),
        ("last {} messages", native_constant("core/src/idempotence.rs", "DEFAULT_MESSAGES")),
        ("for {} seconds", native_constant("core/src/idempotence.rs", "DEFAULT_DURATION_S")),
        ("at most every {} milliseconds", _native.SEEN_EVERY_MS),
        ("more than {:,} pending entries", group._AT_ONCE),
        ("({:,} unless told otherwise)", diskstream.Options().pending_rows),
    ],
)
def test_the_numbers_of_the_page_on_groups_are_those_of_the_code(words: str, number: int) -> None:
    assert words.format(number) in " ".join(GROUPS.split())


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    readings = tmp_path / "readings.csv"
    readings.write_text("timestamp,value\n2014-04-01 00:00:00,19.8\n2014-04-01 00:05:00,19.9\n", encoding="utf-8")
    commands = re.findall(r"^\$ diskstream (.*)$", README, flags=re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        program = [sys.executable, "-c", "from diskstream.cli import main; main()", *command.split()]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    assert callable(main)


def test_the_readme_lists_every_verb() -> None:
    table = re.findall(
        r"^\| (`[a-z].*?) \| ", README.partition("## The command")[2].partition("\n## ")[0], flags=re.MULTILINE
    )
    listed = set()
    for cell in table:
        first, *others = re.findall(r"`([^`]+)`", cell)
        thing = first.rpartition(" ")[0]
        listed |= {first, *(f"{thing} {verb}".strip() for verb in others)}
    verbs = set()
    context = click.Context(main)
    for name in main.list_commands(context):
        verb = main.get_command(context, name)
        verbs |= {f"{name} {each}" for each in verb.commands} if isinstance(verb, click.Group) else {name}
    assert listed == verbs


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"^\$ make ([a-z]+)", README, flags=re.MULTILINE))
    assert named == {"demo", "test"}
    assert named <= targets


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("| an entry (names, lengths and values) | 32 MiB |", _native.MAX_ENTRY_BYTES == 32 << 20),
        ("| entries of one `add_many` | 64 MiB together |", 63 << 20 < _native.MAX_BATCH_BYTES <= 64 << 20),
        ("| name of a stream | 4,096 bytes, any bytes |", names.MAX_NAME_BYTES == 4096),
        ("| a segment | 64 MiB of frames,", diskstream.Options().segment_bytes == 64 << 20),
    ],
)
def test_the_limits_of_the_readme_are_those_of_the_code(words: str, number: bool) -> None:
    assert words in README
    assert number


# What the front ends and the jobs call, with what native code packed for them.
INNER = {"add_rows", "add_run", "add_runs", "range_run", "read_runs", "ack_runs", "shown", "has_undelivered"}
INNER |= {"is_read_out", "ripens_in_s", "waits_for_disk"}


@pytest.mark.parametrize("kind", [diskstream.Store, diskstream.Stream, diskstream.Group, diskstream.Consumer])
def test_the_public_surface_is_the_one_that_is_drawn(kind: type) -> None:
    drawn = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## The public surface")[2]
    (own,) = re.findall(rf"^{kind.__name__}: (.*?)(?=^\w+:|^```)", drawn, flags=re.DOTALL | re.MULTILINE)
    assert [name for name in dir(kind) if name[0] != "_" and name not in {*INNER, *re.findall(r"\w+", own)}] == []
    unknown = []
    for name, words in re.findall(r"\b(\w+)\(([^()]*)\)", own):
        method = getattr(kind, name, len)  # `len(stream)` has no such word either
        known = inspect.signature(method).parameters
        unknown += [(name, word) for word in re.findall(r"(\w+)=", words) if word not in known]
    assert unknown == []


def test_the_reference_has_the_modules_that_the_pages_import() -> None:
    """It had one page, of `diskstream` itself: a package that says what it exports has no others on its page."""
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    (names,) = re.findall(r"^REFERENCE := diskstream \$\(addprefix diskstream\.,(.*)\)$", made, flags=re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = "".join(page.read_text(encoding="utf-8") for page in pages)
    imported = set(re.findall(r"(?:import diskstream\.|from diskstream\.|from diskstream import )([a-z]+)\b", texts))
    assert len(imported) > 5
    assert imported - set(names.split()) == set()
    assert [name for name in names.split() if find_spec(f"diskstream.{name}") is None] == []


@pytest.mark.parametrize("folder", ["diskstream", "diskstream/engine"])
def test_the_map_of_modules_has_each_of_them(folder: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("architecture*.md"))
    named = re.findall(r"[\w*]+\.py\b", pages)
    modules = [path.name for path in (ROOT / folder).glob("*.py") if path.name[0] != "_"]
    assert modules
    assert [each for each in modules if not any(fnmatch.fnmatch(each, name) for name in named)] == []


@pytest.mark.parametrize("page", ["README.md", "docs/groups.md", "docs/retention.md", "docs/architecture.md"])
def test_every_page_that_is_linked_to_exists(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("remark", sorted((ROOT / "bench" / "remarks").glob("*.md")), ids=lambda path: path.stem)
def test_the_page_of_figures_has_each_remark_as_its_source_has_it(remark: Path) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert remark.read_text(encoding="utf-8").strip() in page
