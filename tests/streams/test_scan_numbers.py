"""Columns of numbers with fractions: the nearest that there is, however many digits an entry has of it."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diskstream.arrow_rows import pack
from diskstream.batches import Layout, as_batch

EXACT_DIGITS = 400  # more than the difference of any two numbers of 64 bits has


def parsed(texts: Sequence[str], kind: str) -> list[Any]:
    """What a scan makes of fields with these values."""
    numbers = pa.array(range(1, len(texts) + 1), pa.uint64())
    columns = {"id_ms": numbers, "id_seq": numbers, "v": pa.array(texts, pa.string())}
    (rows,) = pack(pa.record_batch(columns), "columns")
    layout = Layout.of("typed", [(b"v", kind)], "last", strict=False, exact=False, metadata=False, times=False)
    found: list[Any] = as_batch(layout, layout.native.batch([rows.block()]), 0)["v"].to_pylist()
    return found


def nearest_single(text: str) -> float:
    """Of 32 bits, by exact comparison: the even one of two that are as near."""
    guess = np.float32(min(max(float(text), -3.4e38), 3.4e38))
    around = [guess, np.nextafter(guess, np.float32(-inf)), np.nextafter(guess, np.float32(inf))]
    near = min(around, key=lambda each: (abs(Fraction(float(each)) - Fraction(text)), int(each.view(np.int32)) & 1))
    return float(near)


@st.composite
def between_two_singles(draw: st.DrawFn) -> str:
    """Halfway between two numbers of 32 bits, or so little beside it that those of 64 bits do not tell."""
    below = np.float32(draw(st.floats(-(2.0**126), 2.0**126, width=32)))
    above = np.nextafter(below, np.float32(inf))
    with localcontext(prec=EXACT_DIGITS):
        middle = (Decimal(float(below)) + Decimal(float(above))) / 2
        return str(middle + draw(st.integers(-1, 1)) * abs(middle).scaleb(-draw(st.integers(17, 40))))


@st.composite
def decimals(draw: st.DrawFn) -> str:
    """Digits with a sign, a point or an exponent, of any length."""
    digits = draw(st.text("0123456789", min_size=1, max_size=40))
    point = draw(st.integers(0, len(digits)))
    exponent = draw(st.one_of(st.just(""), st.integers(-360, 340).map(lambda power: f"e{power}")))
    return f"{draw(st.sampled_from(['', '-', '+']))}{digits[:point]}.{digits[point:]}{exponent}"


@given(
    st.lists(
        st.one_of(decimals(), between_two_singles(), st.floats(allow_nan=False).map(repr)), min_size=1, max_size=20
    )
)
def test_a_double_is_what_python_reads(texts: list[str]) -> None:
    assert parsed(texts, "double") == [float(text) for text in texts]


@given(st.lists(between_two_singles(), min_size=1, max_size=20))
def test_a_float_is_rounded_once_and_not_by_way_of_a_double(texts: list[str]) -> None:
    assert parsed(texts, "float") == [nearest_single(text) for text in texts]


@st.composite
def near_decimals(draw: st.DrawFn) -> str:
    """The same with more digits than a decimal of 38 has, and exponents that may make up for them."""
    digits = draw(st.one_of(st.text("0123456789", min_size=1, max_size=80), st.integers(1, 60).map(lambda n: "9" * n)))
    point = draw(st.one_of(st.just(len(digits)), st.integers(0, len(digits))))
    exponent = draw(st.one_of(st.just(""), st.integers(-80, 40).map(lambda power: f"e{power}")))
    return f"{draw(st.sampled_from(['', '-']))}{digits[:point]}.{digits[point:]}{exponent}"


@given(st.lists(near_decimals(), min_size=1, max_size=20), st.sampled_from([(38, 0), (38, 10), (20, 4), (5, 2)]))
def test_a_decimal_is_rounded_half_up_and_null_where_it_does_not_fit(texts: list[str], kind: tuple[int, int]) -> None:
    precision, scale = kind
    with localcontext(prec=EXACT_DIGITS):
        rounded = [Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) for text in texts]
        wanted = [number if abs(number).scaleb(scale) < 10**precision else None for number in rounded]
    assert parsed(texts, f"decimal({precision},{scale})") == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16777217.000000001", 16777218.0),  # a double of it is halfway between 16777216 and 16777218
        ("-16777217.000000001", -16777218.0),
        ("16777217", 16777216.0),
        ("3.4028235677973366163e38", float(np.finfo(np.float32).max)),  # nearer to it than to 2^128
        ("7.006492321624085e-46", 0.0),  # below half of the least one, and the same double as this
        ("7.0064923216240854e-46", 1.401298464324817e-45),
    ],
)
def test_floats_at_the_ends_of_what_there_is_of_them_are_the_nearest(text: str, value: float) -> None:
    assert parsed([text], "float") == [value]
