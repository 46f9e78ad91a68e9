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
        "A process may be killed at any system call. What it had said is there, what it had not is whole or absent, no "
        "entry is there twice, groups stand where they stood; others go on at once, and whoever opens the store next "
        "finds it sound.",
        (
            "tests/engine/test_killed.py",
            "tests/groups/test_killed.py",
            "tests/cold/test_killed.py",
            "tests/archiving/test_killed.py",
            "tests/repair/test_killed.py",
            "tests/kills/test_kills.py",
        ),
        ("kills",),
    ),
    Promise(
        "A disk that is full, or that fails once, at any system call is an error of ours that names the file, or is "
        "got over; nothing acknowledged is lost, and work goes on as the error says.",
        (
            "tests/engine/test_full_disk.py",
            "tests/engine/test_failing_disk.py",
            "tests/engine/test_failing_looks.py",
            "tests/kills/test_kills.py",
        ),
        ("kills",),
    ),
    Promise(
        "What a process and a store hold (descriptors, mappings, threads, memory, bytes on disk, pages of the view) "
        "does not grow with what was done; thousands of streams need no more than those that may be open.",
        ("tests/engine/test_bounded.py", "tests/bounds/test_bounds.py"),
        ("resources",),
    ),
    Promise(
        "Any number of processes may work on one store, and any of them be killed, stopped or interrupted at any "
        "moment, under every policy: what an append returned is there once, whole, in the order in which appends "
        "followed each other; an append that was cut off is there whole, once, or not at all; a message that is sent "
        "again after it is there once. What is gone, somebody removed.",
        (
            "tests/torture/test_torture.py::test_a_short_form_of_each_part_finds_nothing",
            "tests/crowd/test_planted.py",
            "tests/processes/test_processes.py",
        ),
        ("crowd",),
    ),
    Promise(
        "Meanwhile a reader passes over nothing and sees nothing twice; a group gives each entry to one consumer, "
        "again only while it is pending, and never once its acknowledgement has returned; whoever waits for an entry "
        "is given it; `verify` reports no fault.",
        (
            "tests/torture/test_torture.py::test_a_short_form_of_each_part_finds_nothing",
            "tests/crowd/test_planted.py",
            "tests/groups/test_killed.py",
            "tests/engine/test_spare.py::test_a_copy_that_goes_while_it_is_verified_is_no_fault",
        ),
        ("crowd",),
    ),
    Promise(
        "A backup made meanwhile is each stream as it was at one moment: its entries, its groups, and what is pending.",
        (
            "tests/torture/test_torture.py::test_a_short_form_of_each_part_finds_nothing",
            "tests/crowd/test_planted.py",
            "tests/streams/test_leases.py::test_a_lease_has_the_segments_that_it_lists",
            "tests/backups/test_making.py::test_a_segment_that_is_not_there_is_told",
        ),
        ("crowd",),
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
