"""Timestamps as they stand in real files, turned into milliseconds."""

import re
from datetime import UTC, datetime

import pytest

from diskstream.ingest.sources import Timestamps
from diskstream.ingest.times import TimeParser, parse_timezone


def utc(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]  # year, month, day and so on


@pytest.mark.parametrize(
    ("fmt", "text", "expected"),
    [
        ("auto", "2014-07-01 00:30:00", utc(2014, 7, 1, 0, 30)),
        ("auto", "2014-07-01T00:30:00.123456Z", utc(2014, 7, 1, 0, 30) + 123),
        ("auto", "2015-07-29 17:41:44,747", utc(2015, 7, 29, 17, 41, 44) + 747),
        ("auto", "2014-07-01T00:30:00+02:00", utc(2014, 6, 30, 22, 30)),
        ("auto", "1117838570", utc(2005, 6, 3, 22, 42, 50)),
        ("auto", "1117838570.9999", utc(2005, 6, 3, 22, 42, 50) + 999),
        ("auto", "1117838570123", utc(2005, 6, 3, 22, 42, 50) + 123),
        ("auto", "1117838570123456", utc(2005, 6, 3, 22, 42, 50) + 123),
        ("auto", "1117838570123456789", utc(2005, 6, 3, 22, 42, 50) + 123),
        ("epoch", "5", 5000),
        ("epoch", "0.5", 500),
        ("epoch-ms", "5", 5),
        ("epoch-us", "5999", 5),
        ("epoch-ns", "5999999", 5),
        ("%a %b %d %H:%M:%S %Y", "Sun Dec 04 04:47:44 2005", utc(2005, 12, 4, 4, 47, 44)),
        ("%y/%m/%d %H:%M:%S", "17/06/09 20:10:40", utc(2017, 6, 9, 20, 10, 40)),
        ("%y%m%d %H%M%S", "081109 203615", utc(2008, 11, 9, 20, 36, 15)),
        ("%Y-%m-%d-%H.%M.%S.%f", "2005-06-03-15.42.50.675872", utc(2005, 6, 3, 15, 42, 50) + 675),
    ],
)
def test_formats(fmt: str, text: str, expected: int) -> None:
    assert TimeParser(fmt)(f" {text} ") == expected


def test_a_time_without_an_offset_is_in_the_named_zone() -> None:
    summer = "2014-07-01 12:00:00"
    assert TimeParser(zone=parse_timezone("+02:00"))(summer) == utc(2014, 7, 1, 10)
    assert TimeParser(zone=parse_timezone("-0330"))(summer) == utc(2014, 7, 1, 15, 30)
    assert TimeParser(zone=parse_timezone("utc"))(summer) == utc(2014, 7, 1, 12)
    assert TimeParser(zone=parse_timezone("+02:00"))(summer + "Z") == utc(2014, 7, 1, 12)


def test_a_zone_by_its_name_knows_summer_and_winter() -> None:
    try:
        paris = parse_timezone("Europe/Paris")
    except ValueError:
        pytest.skip("needs the time zone database, which this machine has not")
    assert TimeParser(zone=paris)("2014-07-01 12:00:00") == utc(2014, 7, 1, 10)
    assert TimeParser(zone=paris)("2014-01-01 12:00:00") == utc(2014, 1, 1, 11)


@pytest.mark.parametrize("seconds", [1, 60, 1700, -1, -60, -1700])
def test_the_hour_that_a_zone_has_twice_is_told_by_the_row_before(seconds: int) -> None:
    """Both were the first one: of a log in local time two hours were mixed up, and an hour was without an entry."""
    try:
        paris = parse_timezone("Europe/Paris")
    except ValueError:
        pytest.skip("needs the time zone database, which this machine has not")
    begin, end = utc(2024, 10, 26, 23), utc(2024, 10, 27, 3)
    times = range(begin, end, 1000 * seconds) if seconds > 0 else range(end, begin, 1000 * seconds)
    written = [datetime.fromtimestamp(ms / 1000, paris).strftime("%d.%m.%Y %H:%M:%S") for ms in times]
    parser = TimeParser("%d.%m.%Y %H:%M:%S", zone=paris)
    assert list(map(parser, written)) == list(times)


def test_a_time_that_a_zone_has_twice_is_the_first_where_nothing_tells() -> None:
    try:
        paris = parse_timezone("Europe/Paris")
    except ValueError:
        pytest.skip("needs the time zone database, which this machine has not")
    parser = TimeParser(zone=paris)
    assert [parser("2024-10-27 02:30:00") for _ in range(2)] == [utc(2024, 10, 27, 0, 30)] * 2
    assert parser("2024-03-31 02:30:00") == utc(2024, 3, 31, 1, 30)  # which there is not


@pytest.mark.parametrize(
    ("zone", "before", "twice", "expected"),
    [
        ("America/New_York", "9999-12-31 23:59:59", "2024-11-03 01:30:00", (2024, 11, 3, 6, 30)),
        ("Europe/Paris", "2024-10-27T01:20:00Z", "2024-10-27 02:30:00", (2024, 10, 27, 1, 30)),
    ],
)
def test_a_time_of_no_meaning_at_an_end_of_the_calendar_may_stand_before_one_that_a_zone_has_twice(
    zone: str, before: str, twice: str, expected: tuple[int, ...]
) -> None:
    """UTC has no date for some of them. And what is refused is no row before: it says nothing of which hour it is."""
    try:
        parser = TimeParser(zone=parse_timezone(zone))
    except ValueError:
        pytest.skip("needs the time zone database, which this machine has not")
    parser(before)
    with pytest.raises(ValueError, match="before 1970"):
        parser("0001-01-01 00:00:00")
    assert parser(twice) == utc(*expected)


@pytest.mark.parametrize("name", ["", "Nowhere/Land", "+25:00", "../etc/passwd"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_timezone(name)


@pytest.mark.parametrize(
    ("fmt", "text", "reason"),
    [
        ("auto", "yesterday", "Invalid isoformat"),
        ("auto", "", "Invalid isoformat"),
        ("auto", "081109", "name its format"),
        ("auto", "1969-12-31 23:59:59", "before 1970"),
        ("epoch", "-5", "before 1970"),
        ("epoch", "1e9", "not a number"),
        ("epoch", "9" * 30, "beyond the largest ID"),
        ("epoch", "9" * 10_000, "^has too many digits$"),  # what Python said named one of its own functions
        ("%d/%m/%Y", "2014-07-01", "does not match"),
    ],
)
def test_what_cannot_be_read_says_why(fmt: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TimeParser(fmt)(text)


@pytest.mark.parametrize("fmt", ["rfc3339", "%s", "%b %d %H:%M:%S"])
def test_a_format_that_cannot_work_is_refused_at_once(fmt: str) -> None:
    with pytest.raises(ValueError, match=r"neither one of|epoch|--year"):
        TimeParser(fmt)


def test_a_log_without_years_may_run_past_new_year_and_29_february() -> None:
    parser = TimeParser("%b %d %H:%M:%S", year=2015)
    assert parser("Dec 31 23:59:59") == utc(2015, 12, 31, 23, 59, 59)
    assert parser("Jan  1 00:00:01") == utc(2016, 1, 1, 0, 0, 1)
    assert parser("Dec 31 23:59:58") == utc(2015, 12, 31, 23, 59, 58)
    assert parser("Feb 29 12:00:00") == utc(2016, 2, 29, 12)
    with pytest.raises(ValueError, match="out of range"):
        parser("Feb 30 12:00:00")


def test_a_timestamp_may_stand_in_two_columns() -> None:
    timestamps = Timestamps([b"Date", b"Time"], TimeParser("%y/%m/%d %H:%M:%S"))
    assert timestamps([(b"Time", b"20:10:40"), (b"Date", b"17/06/09")]) == utc(2017, 6, 9, 20, 10, 40)


def test_a_timestamp_may_stand_anywhere_in_a_line() -> None:
    group = Timestamps([b"line"], TimeParser("%b %d %H:%M:%S", year=2016), re.compile(rb"^\[(.*?)\]"))
    assert group([(b"line", b"[Dec 10 06:55:46] sshd \xff")]) == utc(2016, 12, 10, 6, 55, 46)
    whole = Timestamps([b"line"], TimeParser(), re.compile(rb"\d{10}"))
    assert whole([(b"line", b"- 1117838570 2005.06.03")]) == utc(2005, 6, 3, 22, 42, 50)
    with pytest.raises(ValueError, match="no timestamp where the pattern looks for it: 'Dec 10'"):
        group([(b"line", b"Dec 10")])


def test_a_group_that_is_left_out_holds_no_timestamp() -> None:
    """It was a traceback."""
    timestamps = Timestamps([b"line"], TimeParser("epoch"), re.compile(rb"(\d+)? job"))
    assert timestamps([(b"line", b"1117838570 job")]) == utc(2005, 6, 3, 22, 42, 50)
    with pytest.raises(ValueError, match="no timestamp where the pattern looks for it: ' job'"):
        timestamps([(b"line", b" job")])


@pytest.mark.parametrize("fmt", ["%Y %", "%Y-%Q", "%Y %m %Y"])
def test_a_pattern_that_no_text_can_match_is_told_before_any_row_is_a_bad_one(fmt: str) -> None:
    """One directive twice was a traceback, the others a bad row each."""
    with pytest.raises(ValueError, match=r"stray %|bad directive|twice"):
        TimeParser(fmt)


def test_a_date_and_a_time_written_together_are_not_taken_for_a_number() -> None:
    """`20240101120000` became a time in 2611, `202401011200` one in 1976."""
    for text in ("202401011200", "20240101120000", "20240101120000123"):
        with pytest.raises(ValueError, match="name its format"):
            TimeParser()(text)
    assert TimeParser("%Y%m%d%H%M%S")("20240101120000") == utc(2024, 1, 1, 12)
    assert TimeParser("epoch-ms")("202401011200") == 202_401_011_200
    assert TimeParser()("20241301120000") == 20_241_301_120_000  # there is no such month


@pytest.mark.parametrize("offset", ["+00:99", "-24:00", "+23:60"])
def test_an_offset_has_hours_and_minutes_of_a_day(offset: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_timezone(offset)


def test_a_row_without_the_column_says_what_it_has() -> None:
    with pytest.raises(ValueError, match="has no column 'time' \\(it has 'timestamp', 'value'\\)"):
        Timestamps([b"time"], TimeParser())([(b"timestamp", b"x"), (b"value", b"y")])
