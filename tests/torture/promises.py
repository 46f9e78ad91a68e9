"""The promises of docs/reliability.md, with the tests and the parts of the torture that could break each."""

from dataclasses import dataclass

__all__ = ["PROMISES", "Promise"]


@dataclass(frozen=True)
class Promise:
    """A promise.

    Attributes:
        text: what is promised.
        tests: the tests that could break it, as `file::function` or `file`; they are run by CI.
        parts: the parts of the torture that could break it.
    """

    text: str
    tests: tuple[str, ...]
    parts: tuple[str, ...] = ()


PROMISES: tuple[Promise, ...] = (
    Promise(
        "What was acknowledged under `fsync=always` is there after a power cut, in its order, byte by byte; under "
        "`everysec` and `interval=N` all but what was acknowledged after the last flush, and never a hole.",
        ("tests/crash/test_power_cut.py::test_every_state_that_a_power_cut_may_leave_keeps_every_promise",),
        ("power",),
    ),
    Promise(
        "Whatever bytes a parser is given, from a disk, from a socket or by hand, it reads them or refuses them in our "
        "own words: no panic, no memory that is not ours, no allocation for a size that nobody looked at, no endless "
        "loop; and what one of our encoders wrote comes back.",
        (
            "tests/fuzz/test_edges.py::test_changed_bytes_are_read_or_refused",
            "tests/fuzz/test_targets.py::test_every_function_of_the_core_that_takes_bytes_is_in_a_target",
            "native/fuzz/tests/replay.rs::every_input_of_the_corpus_passes",
        ),
        ("fuzz",),
    ),
)
