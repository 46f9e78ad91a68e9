"""An object storage that refuses, breaks off, lies or is silent: nothing is lost, it is said what was, and a second run
finishes the work."""

import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diskstream import Stream, objects
from diskstream.cold import adopt, bring_back, move_out, sweep
from diskstream.errors import CorruptionError, LostObjectError, RemoteError
from diskstream.objects import Place
from tests.cold.s3_server import Answer, Asked, Door, Fault, refusal
from tests.cold.world import filled, names_in, opened, rows, spoilt, where

Fails = Callable[[Asked], Fault | None]


def puts(fault: Fault) -> Fails:
    return lambda asked: fault if asked.method in {"PUT", "POST"} and asked.is_segment else None


def gets(fault: Fault) -> Fails:
    return lambda asked: fault if asked.method == "GET" and asked.is_segment else None


def segments(fault: Fault) -> Fails:
    return lambda asked: fault if asked.is_segment else None


def everything(fault: Fault) -> Fails:
    return lambda _: fault


def records(fault: Fault) -> Fails:
    return lambda asked: fault if asked.method == "PUT" and asked.is_record else None


def after_some(fails: Fails, requests: int = 10) -> Fails:
    """The first requests go through, so that it fails in the middle of the work."""
    left = [requests]

    def fault(asked: Asked) -> Fault | None:
        left[0] -= 1
        return None if left[0] >= 0 else fails(asked)

    return fault


def flipped(answer: Answer) -> Answer:
    middle = len(answer.body) // 2
    body = answer.body[:middle] + bytes([answer.body[middle] ^ 1]) + answer.body[middle + 1 :]
    return Answer(answer.status, answer.headers, body)


def cut(answer: Answer) -> Answer:
    return Answer(answer.status, answer.headers, answer.body, cut_at=len(answer.body) // 2)


def stored(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Changes what is stored: the one chunk of a body, whose framing and checksum are the client's."""

    def changed(body: bytes) -> bytes:
        size, _, rest = body.partition(b"\r\n")
        data = change(rest[: int(size.split(b";")[0], 16)])
        return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)

    return changed


def gone(answer: Answer) -> Answer:
    return Answer(404, [], b"")


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    """A short one: each segment costs many requests."""
    with opened(tmp_path / "store") as store:
        yield filled(store, count=60)


STORED = Answer(200, [("ETag", '"d41d8cd98f00b204e9800998ecf8427e"')], b"")

FAULTS: dict[str, Fails] = {
    "is down": everything(refusal(503, "SlowDown")),
    "breaks": everything(refusal(500, "InternalError")),
    "refuses to write": puts(refusal(403, "AccessDenied")),
    "refuses all": everything(refusal(403, "AccessDenied")),
    "says it has stored what it has not": puts(Fault(STORED)),
    "stores half of it": puts(Fault(body=stored(lambda data: data[: len(data) // 2]))),
    "stores something else": puts(Fault(body=stored(spoilt))),
    "breaks off while it is read": gets(Fault(after=cut)),
    "gives other bytes": gets(Fault(after=flipped)),
    "does not find what it was just given": gets(Fault(after=gone)),
    "is silent": everything(Fault(hangs=True)),
    "is silent when it is read": gets(Fault(hangs=True)),
    "keeps no record": records(Fault(STORED)),
    "keeps half a record": records(Fault(body=stored(lambda data: data[: len(data) // 2]))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_goes_before_it_is_there_for_sure(stream: Stream, door: Door, tmp_path: Path, fault: str) -> None:
    before = rows(stream)
    url = door.url(tmp_path.name)
    door.fault = after_some(FAULTS[fault])
    with pytest.raises(RemoteError) as failed:
        move_out(stream, url, older_than_ms=0)
    assert failed.value.hint
    assert url.split("?")[0] in str(failed.value)
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(failed.value)
    door.released.set()
    door.fault = lambda _: None
    # Whatever went has an object that is sound, and the rest is here.
    assert set(where(stream)[-3:]) == {"here"}
    assert rows(stream) == before
    move_out(stream, url, older_than_ms=0)
    assert where(stream) == ["cold"] * (len(where(stream)) - 1) + ["here"]
    stream._store.close()
    with opened(tmp_path / "store") as store:
        assert store.verify(cold=True).ok
        assert rows(store.stream("x")) == before


def test_what_a_liar_keeps_is_not_overwritten_and_is_swept_later(stream: Stream, door: Door, tmp_path: Path) -> None:
    url = door.url(tmp_path.name)
    door.fault = FAULTS["stores half of it"]
    with pytest.raises(RemoteError):
        move_out(stream, url, older_than_ms=0)
    door.fault = lambda _: None
    report = move_out(stream, url, older_than_ms=0)
    swept = sweep(stream._store, url, older_than_ms=0)
    (half,) = (each.path for each in swept.removed)
    assert half.partition("-")[0] == report.segments[0].path.partition("-")[0]
    assert half != report.segments[0].path
    assert swept.needed == len(report.segments)
    assert stream._store.verify(cold=True).ok


READS: dict[str, tuple[Fails, type[Exception], str]] = {
    "down": (everything(refusal(503, "SlowDown")), RemoteError, "could not"),
    "silent": (everything(Fault(hangs=True)), RemoteError, "could not"),
    "gone": (segments(Fault(after=gone)), LostObjectError, "not there any more"),
    "broken off": (gets(Fault(after=cut)), RemoteError, "could not read|broke off"),
    "flipped": (gets(Fault(after=flipped)), CorruptionError, "SHA-256"),
    "refused": (everything(refusal(403, "AccessDenied")), RemoteError, "could not"),
}


@pytest.mark.parametrize("fault", READS)
def test_a_read_of_what_cannot_be_had_fails_alone(stream: Stream, door: Door, tmp_path: Path, fault: str) -> None:
    before = rows(stream)
    move_out(stream, door.url(tmp_path.name), before="40")
    door.fault, kind, words = READS[fault]
    with pytest.raises(kind, match=words):
        rows(stream, "10", "12")
    if fault != "silent":  # each waits until it gives up
        with pytest.raises(kind):
            stream.get("10-0")
        with pytest.raises(kind):
            stream.delete("10-0")
        with pytest.raises(kind):
            stream.trim(minid="10")
    with pytest.raises(kind):
        stream.add({"n": "x"}, "900-0", minid="10")
    assert stream.last_id().ms == 60
    assert rows(stream, "50", "899") == before[49:]
    assert str(stream.add({"n": "x"}, "901-0")) == "901-0"
    assert stream.trim(minid="10", approximate=True) == 0
    assert stream.info().length == len(stream) == 60 + 1
    assert stream._store.verify().ok
    if fault != "silent":
        assert stream._store.verify(cold=True).problems[0].first == "1-0"
    assert names_in(tmp_path / "store" / "cold-cache", "") == []
    with pytest.raises(kind):
        bring_back(stream)
    door.released.set()
    door.fault = lambda _: None
    assert rows(stream)[:-1] == before
    bring_back(stream)
    assert stream._store.verify().ok


def test_a_storage_that_trickles_is_left_after_a_time(
    stream: Stream, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_out(stream, door.url(tmp_path.name), before="40")
    monkeypatch.setattr(objects, "_CALL_S", 0.5)
    door.fault = gets(Fault(drips=True))
    with pytest.raises(RemoteError, match="no answer for"):
        rows(stream, "10", "12")


def test_one_that_lists_late_is_believed_in_nothing(stream: Stream, door: Door, tmp_path: Path) -> None:
    url = door.url(tmp_path.name)
    report = move_out(stream, url, older_than_ms=0)
    lists_nothing = b"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    empty = Fault(Answer(200, [("Content-Type", "application/xml")], lists_nothing))
    door.fault = lambda asked: empty if asked.is_list else None
    assert sweep(stream._store, url, older_than_ms=0).removed == []
    assert rows(stream)[0][0].ms == 1
    victim = tmp_path / "store" / "streams" / "x" / "00000002.cold"
    victim.unlink()
    assert [each.number for each in adopt(stream, url).missing] == [2]
    door.fault = lambda _: None
    assert [each.number for each in adopt(stream, url).adopted] == [2]
    assert len(rows(stream)) == 60
    assert len(report.segments) == where(stream).count("cold")


def test_a_transient_failure_is_tried_again(stream: Stream, door: Door, tmp_path: Path) -> None:
    failed: set[tuple[str, str]] = set()

    def once(asked: Asked) -> Fault | None:
        """The first request of each kind for each object and record fails, whatever name the next attempt has."""
        key = asked.method, re.sub(r"-[0-9a-f]{16}(?=\.)", "", asked.path)
        if key in failed or asked.method == "GET":
            return None
        failed.add(key)
        return refusal(503, "SlowDown")

    door.fault = once
    move_out(stream, door.url(tmp_path.name), before="50")
    assert len(failed) > 5
    assert stream._store.verify(cold=True).ok


LOOKS: dict[str, tuple[str, Callable[[Place], object]]] = {
    "list": ("GET", lambda place: place.objects("a")),
    "look": ("HEAD", lambda place: place.fetch("a/b.seg", lambda _: None, 1200)),
    "read": ("GET", lambda place: place.fetch("a/b.seg", lambda _: None, 1200)),
    "write": ("PUT", lambda place: place.put("a/c.seg", io.BytesIO(b"new"))),
}


@pytest.mark.parametrize(
    ("status", "code", "doing", "advice"),
    [
        (400, "ExpiredToken", "list", "expired"),
        (400, "ExpiredToken", "look", "expired"),
        (400, "ExpiredToken", "write", "expired"),
        (403, "RequestTimeTooSkewed", "write", "the clock of this machine"),
        (301, "PermanentRedirect", "list", "region=eu-west-1"),
        (301, "PermanentRedirect", "look", "region=eu-west-1"),
        (400, "AuthorizationHeaderMalformed", "write", "region=eu-west-1"),
        (400, "AuthorizationHeaderMalformed", "look", "the region in the URL"),
        (403, "InvalidObjectState", "read", "restore it there"),
        (403, "AccessDenied", "look", "what they allow"),
        (507, "XMinioStorageFull", "write", "make room there"),
        (403, "QuotaExceeded", "write", "make room there"),
    ],
)
def test_what_is_refused_for_good_is_told_with_what_to_do_and_not_asked_again(
    door: Door, tmp_path: Path, status: int, code: str, doing: str, advice: str
) -> None:
    """Of credentials that had expired, and of a bucket in another region, it said to run it again."""
    place = Place(door.url(tmp_path.name))
    place.put("a/b.seg", io.BytesIO(b"old" * 400))  # an error that is longer is not read
    method, look = LOOKS[doing]
    door.asked.clear()
    door.fault = lambda asked: refusal(status, code) if asked.method == method else None
    with pytest.raises(RemoteError) as failed:
        look(place)
    assert advice in (failed.value.hint or "")
    assert sum(asked.method == method for asked in door.asked) == 1


def test_a_bucket_that_is_not_there_is_said(stream: Stream, s3_port: int) -> None:
    url = f"s3://nowhere/x?endpoint_override=http://127.0.0.1:{s3_port}&region=us-east-1"
    with pytest.raises(RemoteError) as failed:
        move_out(stream, url, older_than_ms=0)
    assert "no such bucket" in (failed.value.hint or "")


def test_only_of_a_bucket_that_is_there_an_object_is_called_gone(stream: Stream, door: Door, tmp_path: Path) -> None:
    """Both are said by the same status, and who passes over what is lost for good must not pass over a mistyped URL."""
    moved = move_out(stream, door.url(tmp_path.name), before="40").segments
    missing = refusal(404, "NoSuchKey")
    door.fault = segments(missing)
    with pytest.raises(LostObjectError, match=f"it holds entries {moved[0].first} to {moved[0].last}"):
        rows(stream)
    door.fault = everything(missing)
    with pytest.raises(RemoteError, match="there is no bucket") as failed:
        rows(stream)
    assert not isinstance(failed.value, LostObjectError)


@pytest.mark.parametrize("some", [False, True])
def test_a_place_that_refuses_again_and_again_is_not_asked_for_each_segment(
    stream: Stream, door: Door, tmp_path: Path, *, some: bool
) -> None:
    """Of one that is silent each costs half a minute, so that a verification of thousands took the whole day."""
    store = stream._store
    segments = move_out(filled(store, "y"), door.url(tmp_path.name), keep_entries=0).segments
    asked: list[str] = []

    def refuses(question: Asked) -> Fault | None:
        if question.path not in asked:
            asked.append(question.path)
        return None if some and asked.index(question.path) % 3 == 0 else refusal(403, "AccessDenied")

    door.fault = refuses
    problems = store.verify(cold=True).problems
    if some:
        assert len(asked) == len(segments) > 6
        assert len(problems) == len(segments) - (len(segments) + 2) // 3
        return
    assert len(asked) == 3 < len(problems) == len(segments)
    assert {problem.place for problem in problems} == {door.url(tmp_path.name)}
    assert "was not asked for" in problems[-1].what
    assert "ACCESS_DENIED" in problems[-1].what
