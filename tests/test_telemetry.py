"""/proc into rows: what the kernel writes, and what this machine says."""

from pathlib import Path

import pytest

from diskstream.cli.telemetry import (
    ALL,
    CPU,
    PROC,
    Sampler,
    Telemetry,
    parse_cpu,
    parse_disks,
    parse_memory,
    parse_network,
)

STAT = b"""cpu  4531 0 2042 187682 349 0 60 14 0 0
cpu0 1650 0 788 94844 49 0 11 4 0 0
intr 55437 0 9
ctxt 1990473
"""
MEMINFO = b"""MemTotal:       16326412 kB
HugePages_Total:       0
"""
DISKSTATS = b"""   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 48893 6704 3116274 8113 16480 6039 4657472 1968 0 4852 10461
"""
NET_DEV = b"""Inter-|   Receive                               |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    3193   29    0    0    0     0          0         0  3193   29    0    0    0     0       0          0
  eth0:207911278 5394   0    0    0     0          0         0 367315 3747   0    0    0     0       0          0
"""


def test_cpu_has_a_row_for_all_processors_and_for_each() -> None:
    together, first = parse_cpu(STAT)
    assert together[:3] == [(b"cpu", b"cpu"), (b"user", b"4531"), (b"nice", b"0")]
    assert dict(first)[b"cpu"] == b"cpu0"
    assert (len(first), first[-1]) == (11, (b"guest_nice", b"0"))


def test_memory_is_one_row_without_units() -> None:
    assert parse_memory(MEMINFO) == [[(b"MemTotal", b"16326412"), (b"HugePages_Total", b"0")]]


def test_disks_that_were_never_used_are_left_out() -> None:
    (vda,) = parse_disks(DISKSTATS)
    assert vda[:3] == [(b"device", b"vda"), (b"reads", b"48893"), (b"reads_merged", b"6704")]
    assert vda[-1] == (b"ms_weighted", b"10461")


def test_network_has_a_row_for_each_interface_also_where_a_number_touches_its_name() -> None:
    lo, eth0 = parse_network(NET_DEV)
    assert dict(lo)[b"tx_bytes"] == b"3193"
    assert eth0[:2] == [(b"interface", b"eth0"), (b"rx_bytes", b"207911278")]
    assert dict(eth0)[b"tx_packets"] == b"3747"


def test_an_open_file_is_read_anew_at_each_sample(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_bytes(STAT)
    with Sampler(CPU, tmp_path) as sampler:
        before = sampler.sample()
        stat.write_bytes(STAT.replace(b"4531", b"4532"))
        after = sampler.sample()
    assert dict(before[0])[b"user"] == b"4531"
    assert dict(after[0])[b"user"] == b"4532"


def test_a_file_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path) -> None:
    lines = STAT.splitlines()[0] + b"\n"
    (tmp_path / "stat").write_bytes(lines * 5_000)
    with Sampler(CPU, tmp_path) as sampler:
        assert len(sampler.sample()) == 5_000


@pytest.mark.parametrize("telemetry", ALL, ids=[telemetry.name for telemetry in ALL])
def test_this_machine_has_telemetry_of_each_kind(telemetry: Telemetry) -> None:
    if not (PROC / telemetry.file).is_file():
        pytest.skip(f"needs /proc/{telemetry.file}, which this machine has not")
    with Sampler(telemetry) as sampler:
        rows = sampler.sample()
    assert rows or telemetry.name == "disks"  # a container may show no disk
    assert all(name and isinstance(value, bytes) for row in rows for name, value in row)
