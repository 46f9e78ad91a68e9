"""Memory that a process may not have ends a call, and not the process."""

from pathlib import Path

from tests.engine import hungry
from tests.engine.children import child


def test_what_there_is_no_memory_for_is_an_error_and_nothing_of_it_is_added(tmp_path: Path) -> None:
    """The interpreter was ended; and what is refused for its size was copied before, twice over."""
    with child(hungry.add, tmp_path / "s") as process:
        too_large, no_memory, entries = process.rest()
        assert process.wait() == 0
    assert too_large.startswith("LimitError")
    assert f"{256 * hungry.MIB + 10}," in too_large
    assert no_memory.startswith("MemoryError no memory for an entry of ")
    assert entries == "5"


def test_what_there_is_no_memory_to_read_is_an_error(tmp_path: Path) -> None:
    """A column may have 2 GiB, and a node 128 MiB: the interpreter was ended."""
    with child(hungry.read, tmp_path / "s") as process:
        *errors, entries = process.rest()
        assert process.wait() == 0
    assert entries == "3"
    assert any(error.startswith("MemoryError no memory for a ") for error in errors)


def test_what_there_is_no_memory_to_seal_stays_as_it_is(tmp_path: Path) -> None:
    """The interpreter was ended, by a seal in the background too."""
    with child(hungry.seal, tmp_path / "s") as process:
        *errors, entries = process.rest()
        assert process.wait() == 0
    assert entries == "3"
    assert any(error.startswith("MemoryError no memory for ") and "packed" in error for error in errors)
