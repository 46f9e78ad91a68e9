"""docs/cold.md: its program runs, its numbers are those of the code, its links and verbs are there."""

import re
from pathlib import Path

import pytest

import diskstream
from diskstream import object_address, objects
from diskstream.cli.cold import command
from diskstream.engine import cold, fetching
from tests.test_docs import blocks, printed

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "cold.md").read_text(encoding="utf-8")


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    (program,), (output,) = blocks(PAGE, "python"), blocks(PAGE, "text")
    assert printed(program.replace("/tmp/frozen", str(tmp_path / "frozen")), tmp_path / "there") == output


def test_every_verb_is_on_the_page() -> None:
    named = set(re.findall(r"^\| `diskstream cold (\w+)", PAGE, flags=re.MULTILINE))
    assert named == set(command.commands)


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    assert all((ROOT / "docs" / link).is_file() for link in links)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("({} GiB unless told otherwise)", diskstream.Options().cold_cache_bytes >> 30),
        ("| an object | {} GiB |", cold.MAX_OBJECT_BYTES >> 30),
        ("| a URL | {:,} characters |", object_address.MAX_URL_CHARS),
        ("| silence of a storage | {:.0f} seconds, then", object_address._SILENCE_S),
        ("| one MiB | {:.0f} seconds |", objects._CALL_S),
        ("more than {} cold segments at once", fetching._FETCHES),
    ],
)
def test_its_numbers_are_those_of_the_code(words: str, number: float) -> None:
    assert words.format(number) in " ".join(PAGE.split())
    assert object_address._ATTEMPTS == 2
    assert objects._AT_ONCE == 1 << 20
