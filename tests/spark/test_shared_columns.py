"""Batches are handed to a JVM in memory that it has mapped, each until it is given back; else by Spark's own socket."""

import gc
import os
import pickle
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from diskstream import ArgumentError

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from diskstream.spark import shared_columns
from diskstream.spark.partitions import EntriesPartition
from diskstream.spark.shared_columns import SLOTS, Offered, handed

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files of memory")

PARTITION = EntriesPartition("/a", "a", (), leased=False)
END = (0, 0, 0, 0)
WAITS_S = 30.0


def batch_of(rows: int, value: str = "x") -> pa.RecordBatch:
    return pa.record_batch({"n": list(range(rows)), "text": [value if n % 3 else None for n in range(rows)]})


class Jvm:
    """What the JVM does, by hand: listens, opens the file, takes batches and gives them back."""

    def __init__(self, place: Path) -> None:
        self.place = str(place / "s")
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.settimeout(WAITS_S)
        self._server.bind(self.place)
        self._server.listen()

    def accept(self) -> None:
        self._socket, _ = self._server.accept()
        self._socket.settimeout(WAITS_S)
        pid, fd = struct.unpack("<QQ", self._read(16))
        self._path = Path(f"/proc/{pid}/fd/{fd}")
        self._file = self._path.open("rb")
        self._socket.sendall(b"\1")

    def _read(self, length: int) -> bytes:
        found = b""
        with suppress(ConnectionResetError):  # an end too: the other side had not read all that it was told
            while len(found) < length and (more := self._socket.recv(length - len(found))):
                found += more
        return found

    def told(self) -> tuple[int, ...]:
        """The next message: size of the file, offset, length, slot; nothing at an end without the last message."""
        found = self._read(32)
        return struct.unpack("<QQQQ", found) if found else ()

    def at(self, message: tuple[int, ...]) -> pa.RecordBatch:
        size, offset, length, _ = message
        assert os.fstat(self._file.fileno()).st_size == size
        (found,) = pa.ipc.open_stream(os.pread(self._file.fileno(), length, offset))
        return found

    def give_back(self, *slots: int) -> None:
        with suppress(BrokenPipeError):  # a worker that told of the end waits for nothing
            self._socket.sendall(bytes(slots))

    def has_news(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def take_all(self) -> list[pa.RecordBatch]:
        found = []
        while (message := self.told()) != END:
            assert message, "an end without the last message"
            found.append(self.at(message))
            self.give_back(message[3])
        return found

    def close(self) -> None:
        for each in (getattr(self, "_socket", None), getattr(self, "_file", None), self._server):
            if each is not None:
                each.close()


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[Jvm]:
    made = Jvm(tmp_path)
    yield made
    made.close()


class Worker(threading.Thread):
    """Has batches handed over, as a task does: `by_socket` is what is left for Spark's own."""

    def __init__(self, place: str, batches: Iterator[pa.RecordBatch]) -> None:
        super().__init__(daemon=True)
        self._offered, self._batches = Offered(PARTITION, place), batches
        self.by_socket: list[pa.RecordBatch] = []
        self.error: ArgumentError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.by_socket.extend(handed(self._offered, lambda _: self._batches))
        except ArgumentError as error:  # which the test looks at
            self.error = error

    def ended(self) -> list[pa.RecordBatch]:
        self.join(WAITS_S)
        assert not self.is_alive(), "the worker waits for what does not come"
        return self.by_socket


def opened() -> Counter[str]:
    """What each descriptor of this process is of: what other tests left open may be closed meanwhile."""
    gc.collect()  # an error that a test looked at holds what it came by
    found: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found[str(Path("/proc/self/fd", fd).readlink())] += 1
    return found


def test_all_batches_go_by_memory_and_are_what_they_were(jvm: Jvm) -> None:
    before = opened()
    batches = [batch_of(rows, "żółw" * (rows % 5)) for rows in (1000, 3, 999, 0, 1100, 7, 1000)]
    worker = Worker(jvm.place, iter(batches))
    jvm.accept()
    assert jvm.take_all() == batches
    assert worker.ended() == []
    assert worker.error is None
    left = opened() - before
    assert sorted(kind.partition(":")[0] for kind in left.elements()) == ["/memfd", "socket"], "those of this end"


def test_a_batch_stays_where_it_lies_until_it_is_given_back(jvm: Jvm) -> None:
    batches = [batch_of(1000, str(number)) for number in range(SLOTS + 2)]
    worker = Worker(jvm.place, iter(batches))
    jvm.accept()
    held = [jvm.told() for _ in range(SLOTS)]
    assert sorted(message[3] for message in held) == list(range(SLOTS))
    assert not jvm.has_news()
    assert [jvm.at(message) for message in held] == batches[:SLOTS]
    jvm.give_back(held[1][3])
    assert (message := jvm.told())[1:] == held[1][1:]
    assert jvm.at(message) == batches[SLOTS]
    assert [jvm.at(held[0]), jvm.at(held[2])] == [batches[0], batches[2]]
    jvm.give_back(held[2][3])
    assert jvm.at(jvm.told()) == batches[SLOTS + 1]
    assert jvm.told() == END
    assert worker.ended() == []


def test_the_file_grows_only_when_all_batches_were_given_back(jvm: Jvm) -> None:
    batches = [batch_of(100), batch_of(100), batch_of(50_000, "long" * 9)]
    worker = Worker(jvm.place, iter(batches))
    jvm.accept()
    first, second = jvm.told(), jvm.told()
    jvm.give_back(first[3])
    assert not jvm.has_news()
    assert jvm.at(second) == batches[1]
    jvm.give_back(second[3])
    message = jvm.told()
    assert message[0] > second[0]
    assert jvm.at(message) == batches[2]
    assert jvm.told() == END
    assert worker.ended() == []


def test_for_large_batches_there_is_one_place(jvm: Jvm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_columns, "_LARGE_BYTES", 100_000)
    batches = [batch_of(1000), batch_of(20_000), batch_of(20_000, "y"), batch_of(1000)]
    worker = Worker(jvm.place, iter(batches))
    jvm.accept()
    small = jvm.told()
    jvm.give_back(small[3])
    for batch in batches[1:]:
        message = jvm.told()
        assert message[3] == 0
        assert jvm.at(message) == batch
        assert message[0] < 2 * batches[1].nbytes
        assert batch is batches[-1] or not jvm.has_news()
        jvm.give_back(0)
    assert jvm.told() == END
    assert worker.ended() == []


def test_a_batch_that_no_jvm_can_map_is_refused(jvm: Jvm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_columns, "_MOST_BYTES", 1_000_000)
    worker = Worker(jvm.place, iter([batch_of(1000), batch_of(200_000)]))
    jvm.accept()
    jvm.give_back(jvm.told()[3])
    assert jvm.told() == ()
    worker.ended()
    assert isinstance(worker.error, ArgumentError)
    assert "give a smaller batchRows" in str(worker.error)


def test_an_error_while_reading_is_raised_and_the_jvm_is_not_told_of_an_end(jvm: Jvm) -> None:
    def read() -> Iterator[pa.RecordBatch]:
        yield from (batch_of(1000), batch_of(1000))
        raise ArgumentError("no more of it")

    worker = Worker(jvm.place, read())
    jvm.accept()
    jvm.give_back(jvm.told()[3], jvm.told()[3])
    assert jvm.told() == ()
    assert worker.ended() == []
    assert str(worker.error) == "no more of it"


def test_a_batch_before_one_that_cannot_be_read_is_handed_on(tmp_path: Path) -> None:
    """A query that has enough with the first one does not fail for the second."""

    def read(_: object) -> Iterator[pa.RecordBatch]:
        yield batch_of(2)
        raise ArgumentError("the second is damaged")

    batches = handed(Offered(PARTITION, str(tmp_path / "nobody listens")), read)
    assert next(batches) == batch_of(2)
    with pytest.raises(ArgumentError, match="the second is damaged"):
        next(batches)


@pytest.mark.parametrize("taken", [1, SLOTS])
def test_a_jvm_that_wants_no_more_ends_the_reading(jvm: Jvm, taken: int) -> None:
    read = []

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            read.append(0)
            yield batch_of(1000)

    worker = Worker(jvm.place, endless())
    jvm.accept()
    for _ in range(taken):
        jvm.told()
    jvm.close()
    assert worker.ended() == []
    assert worker.error is None
    assert len(read) <= SLOTS + 2


# --- by the socket ----------------------------------------------------------------------------------------------------


def test_one_small_batch_goes_by_the_socket_without_a_word(jvm: Jvm) -> None:
    batch = batch_of(1000)
    assert Worker(jvm.place, iter([batch])).ended() == [batch]
    assert Worker(jvm.place, iter([])).ended() == []


def test_one_large_batch_goes_by_memory(jvm: Jvm) -> None:
    worker = Worker(jvm.place, iter([batch_of(100_000)]))
    jvm.accept()
    assert jvm.take_all() == [batch_of(100_000)]
    assert worker.ended() == []


@pytest.mark.parametrize("why", ["nobody listens", "not taken", "no such files"])
def test_where_memory_cannot_be_shared_all_goes_by_the_socket(
    jvm: Jvm, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    before = opened()
    batches = [batch_of(1000), batch_of(2000), batch_of(3)]
    if why == "no such files":
        monkeypatch.delattr(os, "memfd_create")
    place = jvm.place + "-gone" if why == "nobody listens" else jvm.place
    worker = Worker(place, iter(batches))
    if why == "not taken":
        jvm._server.accept()[0].close()
    assert worker.ended() == batches
    assert opened() - before == Counter()


def test_a_partition_that_nothing_was_offered_for_is_read_as_ever() -> None:
    asked: list[object] = []

    def read(each: object) -> Iterator[pa.RecordBatch]:
        asked.append(each)
        yield batch_of(3)

    assert list(handed(PARTITION, read)) == [batch_of(3)]
    assert asked == [PARTITION]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("streams", [1, 10_000], ids=["small", "in several frames"])
def test_the_offer_is_the_pickle_of_a_partition_gone_on_with(protocol: int, streams: int) -> None:
    """As `SharedColumns.scala` writes it."""
    partition = InputPartition([(f"stream {number}", PARTITION) for number in range(streams)])
    inner, place = pickle.dumps(partition, protocol), b"/tmp/diskstream-1/s"
    made = b"cdiskstream.spark.shared_columns\nOffered\n" + inner[:-1]
    found = pickle.loads(made + b"X" + struct.pack("<I", len(place)) + place + b"\x86R.")
    assert type(found) is Offered
    assert found.place == place.decode()
    assert pickle.dumps(found.value) == pickle.dumps(pickle.loads(inner))
    assert len(found.value.value) == streams
