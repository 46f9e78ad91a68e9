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
        "A write or flush that failed loses nothing that was acknowledged, then or at a later power cut; the stream "
        "takes no more until it is opened again, and nothing rests on a flush that succeeded after one that did not.",
        (
            "tests/crash/test_power_cut.py::test_what_must_not_be_believed_is_not",
            "tests/engine/test_failing_disk.py",
            "tests/engine/test_full_disk.py",
        ),
        ("power",),
    ),
    Promise(
        "An ID that the store chose is never chosen again, even where a power cut took its entry, the clock jumped "
        "back, or several processes had the stream open.",
        (
            "tests/crash/test_power_cut.py::test_what_must_not_be_believed_is_not",
            "tests/engine/test_several_processes.py::test_who_closes_does_not_take_back_what_others_reserved",
        ),
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
            "tests/engine/test_replacing.py",
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
        "Any number of processes may work on one store, by themselves or as clients of servers, and any of them be "
        "killed, stopped or interrupted at any moment, servers too, under every policy: what an append returned is "
        "there once, whole, in the order in which appends followed each other; an append that was cut off is there "
        "whole, once, or not at all; a message that is sent again after it is there once. What is gone, somebody "
        "removed.",
        (
            "tests/torture/test_torture.py::test_a_short_form_of_each_part_finds_nothing",
            "tests/crowd/test_planted.py",
            "tests/crowd/test_served.py",
            "tests/processes/test_processes.py",
            "tests/engine/test_interrupt.py::test_ctrl_c_at_any_moment_leaves_the_store_usable",
            "tests/engine/test_roll_cut_short.py",
        ),
        ("crowd", "power"),
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
            "tests/engine/test_removed_meanwhile.py",
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
        "Whatever becomes of the bytes of whichever file (bits, blocks, whole files that are cut, doubled, exchanged, "
        "zeroed, foreign or gone): what is read is right, or an error names the place, or a gap is told, by a "
        "recovery or by `verify`. Nothing is made up, nothing goes in silence, and the interpreter lives.",
        (
            "tests/engine/test_damage.py::test_damage_is_never_believed_and_never_fatal",
            "tests/repair/test_random_damage.py::test_what_cannot_be_kept_is_reported_and_all_else_is_kept",
            "tests/rot/test_judge.py",
            "tests/rot/test_mended.py",
            "tests/rot/test_view_pages.py",
        ),
        ("rot", "bytes"),
    ),
    Promise(
        "What an older version of diskstream has written, this one reads, all of it, and goes on with; what a newer "
        "one has written is refused by a name and a way out, and not changed.",
        (
            "tests/golden/test_golden.py::test_all_is_read_as_it_was_written",
            "tests/golden/test_golden.py::test_an_old_store_goes_on",
            "tests/golden/test_golden.py::test_what_a_newer_version_has_written_is_refused_and_left_alone",
        ),
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
    Promise(
        "Whatever bytes a parser is given, from a disk, from a socket or by hand, it reads them or refuses them in our "
        "own words: no panic, no memory that is not ours, no allocation for a size that nobody looked at, no endless "
        "loop; and what one of our encoders wrote comes back.",
        (
            "tests/fuzz/test_edges.py::test_changed_bytes_are_read_or_refused",
            "tests/fuzz/test_targets.py::test_every_function_of_the_core_that_takes_bytes_is_in_a_target",
            "native/fuzz/tests/replay.rs::every_input_of_the_corpus_passes",
        ),
        ("fuzz", "sanitize"),
    ),
)
