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
        "A client without the password gets a try at it and little memory; a web page that makes a browser speak to "
        "the server gives no commands; a client with the password reaches no file, no listener, and no DEBUG.",
        (
            "tests/security/test_hostile_clients.py",
            "tests/server/test_hostile.py",
            "tests/server/test_limits.py",
            "tests/server/test_fuzz.py",
        ),
    ),
    Promise(
        "No name of a stream, no link or pipe in a directory, no manifest, backup, URL or path of an object has "
        "anything read, written or removed outside its place.",
        (
            "tests/security/test_names.py",
            "tests/security/test_planted_files.py",
            "tests/security/test_given.py",
        ),
    ),
    Promise(
        "Each size in a file or a request is checked before it is believed; what is unpacked is bounded.",
        (
            "tests/security/test_page.py::test_the_limits_of_the_page_are_those_of_the_code",
            "tests/security/test_hostile_clients.py::test_a_payload_unpacks_to_what_dump_makes_and_no_more",
            "tests/security/test_planted_files.py::test_a_giant_of_holes_fills_no_disk",
            "tests/engine/test_damage.py",
        ),
    ),
    Promise(
        "Passwords and keys are in no log, no message, no list and no file; what is made is for its owner, and to be "
        "read by the owner's group.",
        ("tests/security/test_secrets.py",),
    ),
)
