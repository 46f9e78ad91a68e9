"""A workload that has every operation in it, for kills at each of its calls; and whether each had an effect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash import cold_ops, commit_ops, group_ops, ops
from tests.crash.workload import Workload

__all__ = ["NEEDED", "TOUR", "Effects"]

_ADDS = (ops.add_many, ops.add_many, ops.add_many, ops.add_many)

# What is needed is tried more than once: which stream it falls on, and with what, is by chance.
TOUR: tuple[Callable[[Workload], None], ...] = (
    *(ops.add, ops.add, ops.add_many, group_ops.create, group_ops.create, ops.add_explicit, *_ADDS),
    *(group_ops.read_new, group_ops.read_new, group_ops.ack, group_ops.claim, group_ops.nack, group_ops.read_history),
    *(ops.seal, *_ADDS, ops.delete, group_ops.read_new, group_ops.ack, group_ops.autoclaim, ops.seal, ops.compact),
    *(ops.trim, group_ops.trim_references, group_ops.ack_delete, *_ADDS, ops.seal, ops.delete, ops.compact),
    *(commit_ops.add_part, commit_ops.complete, group_ops.add_once, *_ADDS, cold_ops.move, cold_ops.move),
    *(group_ops.read_new, group_ops.claim, ops.trim, cold_ops.fetch, cold_ops.fetch, ops.reopen, ops.add, ops.rename),
    *(ops.set_id, group_ops.set_id, group_ops.delete_consumer, group_ops.destroy, ops.sync, ops.remove, ops.add),
)

# Without an effect of each of these it is no tour.
NEEDED = frozenset(
    {
        *("add", "add_many", "add_explicit", "delete", "trim", "seal", "compact", "reopen", "roll"),
        *("create", "read_new", "ack", "claim", "move", "fetch"),
    }
)


class Effects:
    """Which operations changed what a store holds, or which files it has."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self.seen: set[str] = set()
        self._before = self._look()

    def note(self, operation: Callable[[Workload], None]) -> None:
        """Looks again, after an operation."""
        after = self._look()
        if after != self._before or operation is ops.reopen:
            self.seen.add(operation.__name__)
        if any(path.endswith(".log") and not path.endswith("/00000001.log") for path in after[1] - self._before[1]):
            self.seen.add("roll")
        self._before = after

    def _look(self) -> tuple[dict[bytes, Any], frozenset[str]]:
        root = Path(self._work.files.root)
        files = frozenset(
            str(path.relative_to(root)) for path in root.glob("store/streams/*/*") if path.name not in ("ctl", "name")
        )
        return {name: each.now for name, each in self._work.promises.now.items()}, files
