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
)
