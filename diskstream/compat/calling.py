"""What the methods of commands stand on."""

from typing import Any, TypeAlias

from diskstream.compat.errors import DataError

__all__ = ["Answer", "Calling", "check", "check_count", "check_policy", "is_count"]

# What a method returns, by who has it: the client the reply that its docstring names, the client for asyncio an
# awaitable of it, a pipeline itself. Python's types cannot say so of one method, and redis-py's overloads for two of
# the three cost as many lines as the methods.
Answer: TypeAlias = Any

_POLICIES = ("KEEPREF", "DELREF", "ACKED")


class Calling:
    """Whoever can execute a command."""

    def execute_command(self, *args: Any, **options: Any) -> Answer:
        """Executes a command: its words, and options for the shape of its reply."""
        raise NotImplementedError


def check(good: bool, error: str) -> None:
    """Refuses an argument.

    Raises:
        DataError: it is not good.
    """
    if not good:
        raise DataError(error)


def check_count(value: object, what: str, least: int = 0) -> None:
    """Refuses what is no whole number from `least` on.

    Raises:
        DataError: that.
    """
    check(is_count(value, least), f"{what} must be a {'positive' if least else 'non-negative'} integer")


def is_count(value: object, least: int = 0) -> bool:
    """Whether it is a whole number from `least` on."""
    return isinstance(value, int) and value >= least


def check_policy(value: str, command: str) -> None:
    """Refuses what says not how references to deleted entries are treated.

    Raises:
        DataError: that.
    """
    if value not in _POLICIES:
        raise DataError(f"{command} ref_policy must be one of: {', '.join(_POLICIES)}")
