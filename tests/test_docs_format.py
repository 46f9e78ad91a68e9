"""docs/format/ cannot drift in silence: its tables are added up, and held against the slow reader and the native core.

The slow reader in turn is held against real files by `test_format.py`.
"""

import hashlib
import re
from pathlib import Path

import pytest

from diskstream import _native
from diskstream.engine.cold import MAX_URL_BYTES
from tests.slow_reader import layouts
from tests.slow_reader.digest import LANES, digest
from tests.slow_reader.texts import canonical
from tests.slow_reader.wire import crc32c

PAGES = Path(__file__).resolve().parent.parent / "docs" / "format"
HEADING = re.compile(r"^### (?P<name>.+) \((?P<size>\d+) bytes\)$")
LETTERS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "id": "QQ", "crc": "I"}
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "id": 16, "crc": 4, "uuid": 16}

SAMPLE = canonical({"n": 1, "a": "\xe9"})
Entries = list[tuple[tuple[int, int], list[tuple[bytes, bytes]]]]
ONE: Entries = [((1, 0), [(b"a", b"b")])]

Row = list[str]


def tables(page: str) -> dict[tuple[str, ...], list[Row]]:
    """The rows of each table of a page, by its column heads; of several alike, one after another."""
    found: dict[tuple[str, ...], list[Row]] = {}
    head: tuple[str, ...] | None = None
    for line in (PAGES / page).read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells:
            head = None
        elif head is None:
            head = tuple(cells)
        elif set(cells[0]) != {"-"}:
            found.setdefault(head, []).append(cells)
    return found


def structures() -> dict[str, tuple[int, list[Row]]]:
    """Every table of fields: name and size from its heading, and its rows."""
    found: dict[str, tuple[int, list[Row]]] = {}
    for page in sorted(PAGES.glob("*.md")):
        rows: list[Row] = []
        for line in page.read_text("utf-8").splitlines():
            if heading := HEADING.match(line):
                rows = []
                found[heading["name"].lower()] = int(heading["size"]), rows
            elif cells := re.match(r"\| (\d+) \| (\d+) \| (\w+) \|([^|]*)\|", line):
                rows.append(list(cells.groups()))
            elif line.startswith("#"):
                rows = []
    return found


STRUCTURES = structures()


def numbers(page: str, *columns: str) -> dict[str, int]:
    """Name and number of each row of a table."""
    return {
        row[0]: int(row[1]) for head, rows in tables(page).items() if head[: len(columns)] == columns for row in rows
    }


def test_every_structure_has_a_table() -> None:
    assert set(STRUCTURES) == {*layouts.LAYOUTS, "page", "place"}


@pytest.mark.parametrize("name", STRUCTURES)
def test_fields_follow_each_other_and_fill_their_structure(name: str) -> None:
    size, rows = STRUCTURES[name]
    end = 0
    for offset, field_size, kind, _ in rows:
        assert int(offset) == end
        assert SIZES.get(kind, int(field_size)) == int(field_size)
        end += int(field_size)
    assert end == size


@pytest.mark.parametrize("name", layouts.LAYOUTS)
def test_the_slow_reader_reads_what_the_tables_say(name: str) -> None:
    _, rows = STRUCTURES[name]
    assert layouts.LAYOUTS[name].format == "<" + "".join(LETTERS.get(kind, f"{size}s") for _, size, kind, _ in rows)


@pytest.mark.parametrize(
    ("page", "columns", "expected"),
    [
        ("log.md", ("kind", "value"), layouts.KINDS),
        ("state.md", ("section", "tag"), layouts.SECTIONS),
        ("groups.md", ("record", "tag"), layouts.RECORD_TAGS),
        ("view.md", ("order", "value"), layouts.ORDERS),
        ("README.md", ("limit", "value"), layouts.LIMITS),
        ("ctl.md", ("flag", "value"), {"poisoned": 1, "moved": 2, "check": 4, "rotten": 8}),
        ("ctl.md", ("state", "value"), {"free": 0, "waiting": 1, "woken": 2, "taken": 3}),
    ],
)
def test_numbers_are_those_of_the_slow_reader(page: str, columns: tuple[str, ...], expected: dict[str, int]) -> None:
    assert numbers(page, *columns) == expected


def test_numbers_are_those_of_the_native_core() -> None:
    assert layouts.FORMAT_VERSION == _native.FORMAT_VERSION
    assert layouts.FIRST_FRAME == _native.LOG_HEADER_BYTES
    assert layouts.MAX_ROW_BYTES == _native.MAX_ENTRY_BYTES
    assert layouts.MAX_PAYLOAD_BYTES - 1024 == _native.MAX_BATCH_BYTES
    assert layouts.MAX_MEMBER_NAME_BYTES == _native.MAX_NAME_BYTES
    assert (layouts.MAX_GROUPS, layouts.MAX_CONSUMERS) == (_native.MAX_GROUPS, _native.MAX_CONSUMERS)
    assert STRUCTURES["page"][0] == _native.CTL_BYTES


def rust(path: str) -> str:
    return (PAGES.parent.parent / "native" / path).read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "constant"),
    [
        ("core/src/frame.rs", f"MAX_SNAPSHOT_BYTES: usize = {layouts.MAX_SNAPSHOT_BYTES >> 30} << 30;"),
        ("core/src/groups.rs", f"MAX_PENDING: u64 = {layouts.MAX_PENDING:_};"),
        ("core/src/idempotence.rs", f"MAX_PRODUCERS: usize = 1 << {layouts.MAX_PRODUCERS.bit_length() - 1};"),
        ("core/src/idempotence.rs", f"DEFAULT_DURATION_S: u64 = {layouts.WINDOW_S};"),
        ("core/src/idempotence.rs", f"DEFAULT_MESSAGES: u64 = {layouts.WINDOW_MESSAGES};"),
        ("core/src/commits.rs", f"MAX_WRITERS: usize = {layouts.MAX_WRITERS};"),
        ("core/src/audit.rs", f"MAX_BLOCK_RAW_BYTES: usize = 1 << {layouts.MAX_AUDIT_NAMES_BYTES.bit_length() - 1};"),
        ("core/src/audit.rs", f"MAX_FRAMES_RAW_BYTES: usize = {layouts.MAX_AUDIT_FRAMES_BYTES >> 20} << 20;"),
        ("core/src/pending.rs", f"CHUNK_ROWS: usize = {layouts.CHUNK_ROWS};"),
    ],
)
def test_constants_that_the_native_core_keeps_to_itself(path: str, constant: str) -> None:
    assert f"const {constant}" in rust(path)


def test_the_control_page_has_every_word_that_the_native_core_uses() -> None:
    used = {offset for _, offset in re.findall(r"^    ([A-Z]\w+) = (\d+),$", rust("sys/src/ctl.rs"), re.MULTILINE)}
    words = r"^(?:pub(?:\(crate\))? )?const ([A-Z_]+): usize = (\d+);$"
    queue = dict(re.findall(words, rust("sys/src/queue.rs"), re.MULTILINE))
    _, rows = STRUCTURES["page"]
    assert len(used) > 8
    assert used | {queue[word] for word in ("WAITERS", "TICKETS", "PLACES_AT")} <= {
        offset for offset, _, kind, _ in rows if kind != "zero"
    }
    assert STRUCTURES["place"][0] == int(queue["PLACE_BYTES"])
    (places,) = [size for offset, size, _, _ in rows if offset == queue["PLACES_AT"]]
    assert int(places) == int(queue["PLACES"]) * int(queue["PLACE_BYTES"])


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("README.md", f"This is format version {layouts.FORMAT_VERSION}."),
        ("README.md", f"`123456789` it is 0x{crc32c(b'123456789'):08X}; of no bytes, {crc32c(b'')}."),
        ("log.md", f"`{layouts.LOG_MAGIC.decode()}`"),
        ("log.md", f"The header has {layouts.FIRST_FRAME} bytes."),
        ("log.md", "One at offset {}, one at {}, written in turn".format(*layouts.SLOT_OFFSETS)),
        ("segment.md", f"`{layouts.SEGMENT_MAGIC.decode()}`"),
        ("segment.md", f"`{layouts.FOOTER_MAGIC.decode()}`"),
        ("segment.md", f"`index offset + {layouts.INDEX_ROW.size} nodes + {layouts.FOOTER.size}`"),
        ("segment.md", f"the first node at {layouts.SEGMENT_HEADER.size}"),
        ("audit.md", f"`{layouts.AUDIT_MAGIC.decode()}`"),
        ("audit.md", f"`{layouts.AUDIT_FOOTER_MAGIC.decode()}`"),
        (
            "audit.md",
            f"the first block at {layouts.AUDIT_HEADER.size}, the footer as the last {layouts.AUDIT_FOOTER.size}",
        ),
        (
            "audit.md",
            f"at most {layouts.MAX_AUDIT_FRAMES_BYTES} of frames, {layouts.MAX_AUDIT_NAMES_BYTES} of the names",
        ),
        ("cold.md", f"`{layouts.STUB_MAGIC.decode()}`"),
        ("cold.md", f"the URL at {layouts.STUB.size}"),
        ("cold.md", f"at most {MAX_URL_BYTES} bytes each"),
        ("state.md", f"unless it is 0x{layouts.MAY_BE_PASSED_OVER:x} or more"),
        ("directory.md", f"1 to {layouts.MAX_NAME_BYTES} bytes"),
        ("groups.md", f"{layouts.WINDOW_S} and {layouts.WINDOW_MESSAGES} at first"),
        ("groups.md", f"more than {layouts.MAX_PRODUCERS} producers"),
        ("groups.md", f"{layouts.MAX_WRITERS} others are"),
        ("view.md", f"at most {layouts.CHUNK_ROWS} rows"),
        ("ctl.md", "96 places"),
        ("README.md", f"is that of the {len(SAMPLE)} bytes `{SAMPLE}`"),
        ("README.md", f"`{hashlib.sha256(SAMPLE.encode()).hexdigest()}`"),
        ("digest.md", f"| A | 0x{LANES[0]:X} |\n| B | 0x{LANES[1]:X} |"),
        ("digest.md", f"`{digest(ONE)}`"),
    ],
)
def test_numbers_in_sentences_are_those_of_the_slow_reader(page: str, text: str) -> None:
    assert text in (PAGES / page).read_text("utf-8")


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", (PAGES / page).read_text("utf-8")):
        file = PAGES / (target or page)
        assert file.is_file()
        headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in headings}
