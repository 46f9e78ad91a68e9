"""What callers give, checked where it comes in: what is of the wrong kind is told so by the argument's name."""

import math
import operator
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from diskstream.errors import ArgumentError, ArgumentTypeError

__all__ = ["check_function", "check_number", "check_path", "is_number", "items_of", "path_of", "whole_of"]

_T = TypeVar("_T")
# Of its two slashes a `Path` has one. A single letter is a drive's, of which nobody takes it for somewhere else.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def check_path(path: str | os.PathLike[str], what: str) -> None:
    """Refuses a URL: it would become a folder of that name, here, for what is believed to be somewhere else.

    A folder that has such a name is still reached, as ``./s3:/bucket``.

    Args:
        path: of a file or a folder.
        what: is said to be no URL, as ``the path of a store``.

    Raises:
        ArgumentError: it is a URL.
    """
    if _URL.match(os.fspath(path)):
        raise ArgumentError(f"{what} must be in a folder of this machine, not a URL as {os.fspath(path)!r}")


def path_of(path: str | os.PathLike[str]) -> Path:
    """The path of a store, made absolute. An empty one, as of an unset variable, is not the working directory.

    Raises:
        ArgumentTypeError: it is neither text nor a path.
        ArgumentError: it is bytes, is empty, holds a NUL, is a URL, or, made absolute, no UTF-8, or nothing that the
            locale can name; or it is relative, and the working directory was removed.
    """
    what = "the path of a store"
    try:
        where: object = os.fspath(path)
    except TypeError:
        raise ArgumentTypeError(f"{what} is text or a Path, not {type(path).__name__}") from None
    if not isinstance(where, str) or "\0" in where or not where:
        raise ArgumentError(f"{what} must be text without NUL, not {where!r}")
    check_path(where, what)
    try:
        whole = Path(where).absolute()
    except FileNotFoundError:  # of `os.getcwd`
        gone = f"the working directory was removed: give the whole path, or go to another one, for {where!r}"
        raise ArgumentError(f"{what} is relative, and {gone}") from None
    if any("\ud800" <= char <= "\udfff" for char in str(whole)):
        raise ArgumentError(f"{what} must be UTF-8, which {str(whole)!r} is not: rename the directory")
    try:
        os.fsencode(whole)
    except UnicodeEncodeError as error:
        locale = f"the locale has files named in {error.encoding}: set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
        raise ArgumentError(f"{what} cannot be {str(whole)!a} here, where {locale}") from None
    return whole


def items_of(name: str, given: Iterable[_T]) -> Iterable[_T]:
    """What can be gone through, and is no text: that would be its letters.

    Raises:
        ArgumentTypeError: it cannot, or is.
    """
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{name} is several, as a list or tuple has them, not {given!r}")
    return given


def check_function(name: str, given: Callable[..., object] | None) -> None:
    """Refuses what cannot be called; None is none.

    Raises:
        ArgumentTypeError: it cannot.
    """
    if given is not None and not callable(given):
        raise ArgumentTypeError(f"{name} is a function or None, not {given!r}")


def check_number(name: str, given: object) -> None:
    """Refuses what is no number: of an int so large that no float holds it nobody can count with.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not is_number(given):
        raise ArgumentTypeError(f"{name} is a number, not {given!r}")


def is_number(given: object) -> bool:
    """Whether something is a number that a float can hold. A flag is none, though Python has it for 0 or 1."""
    try:
        return isinstance(given, int | float) and not isinstance(given, bool) and not math.isnan(given)
    except OverflowError:
        return False


def whole_of(name: str, given: object) -> int:
    """A whole number, as Python's own: what is counted with one of numpy's ends at its width.

    Raises:
        ArgumentTypeError: it is none, as a flag is none.
    """
    try:
        number = operator.index(given)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        number = None
    if number is None or isinstance(given, bool):
        raise ArgumentTypeError(f"{name} is an int, not {given!r}")
    return number
