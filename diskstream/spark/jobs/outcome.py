"""What becomes of a task: its result, or an error in the user's words.

An error that left a task would reach the user as a traceback within a traceback, and the driver would not know which
files the other tasks have made. So a task catches what it expects, and tells it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from diskstream.errors import ArchiveError, DiskstreamError, StorageError, storage_error

__all__ = ["Guarded", "Outcome", "done", "split"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Outcome(Generic[_Result]):
    """A result, or an error: what it says, whether it is about the archive, and what a `StorageError` is made from."""

    result: _Result | None = None
    error: str | None = None
    of_archive: bool = False
    storage: tuple[str, str, int, str] | None = None

    def raise_error(self) -> None:
        """Raises what the task met.

        Raises:
            StorageError: the disk said no.
            ArchiveError: something is wrong with the archive.
            DiskstreamError: anything else.
        """
        if self.storage is not None:
            raise storage_error(*self.storage)
        if self.error is not None:
            raise (ArchiveError if self.of_archive else DiskstreamError)(self.error)


@dataclass(frozen=True)
class Guarded(Generic[_Task, _Result]):
    """`work` that returns its outcome and raises nothing that was to be expected."""

    work: Callable[[_Task], _Result]

    def __call__(self, task: _Task) -> Outcome[_Result]:
        """Does it."""
        try:
            return Outcome(self.work(task))
        except StorageError as error:
            return Outcome(storage=(str(error.filename), error.action, error.errno or 0, str(error.strerror)))
        except DiskstreamError as error:
            return Outcome(error=str(error), of_archive=isinstance(error, ArchiveError))
        except OSError as error:
            return Outcome(
                storage=(str(error.filename or "a file"), "use", error.errno or 0, str(error.strerror or error))
            )


def split(outcomes: Sequence[Outcome[_Result]]) -> tuple[list[_Result], Outcome[_Result] | None]:
    """The results that there are, and the first failure."""
    failed = next((each for each in outcomes if each.error is not None or each.storage is not None), None)
    return [each.result for each in outcomes if each.result is not None], failed


def done(outcomes: Sequence[Outcome[_Result]]) -> list[_Result]:
    """The results of tasks that make nothing.

    Raises:
        StorageError, DiskstreamError: what the first of them to fail has met.
    """
    results, failed = split(outcomes)
    if failed is not None:
        failed.raise_error()
    return results
