"""The audit after a power cut: whatever of it is there leads to what the groups hold."""

from diskstream import AuditRecord, Store
from tests.crash.model import ID, State
from tests.crash.observe import Violation, as_id

__all__ = ["check_audit"]

_HELD = ("deliver", "redeliver", "claim", "refuse")


def check_audit(store: Store, found: dict[bytes, State]) -> None:
    """What the audit says last of an entry is what became of it.

    Raises:
        Violation: it says otherwise.
    """
    for name, state in found.items():
        for (key, entry_id), it in _last(store, name).items():
            if key not in state.groups:
                raise Violation(f"{name!r}: the audit knows group {key!r}, which is not there: {it}")
            row = state.groups[key].pending.get(entry_id)
            there = None if row is None else (row.consumer or b"", row.deliveries)
            said = (it.consumer or b"", it.deliveries) if it.action in _HELD else None
            if there != said:
                raise Violation(f"{name!r}: {entry_id} of {key!r} is {there}, and the audit ends with {it}")


def _last(store: Store, name: bytes) -> dict[tuple[bytes, ID], AuditRecord]:
    """The last record of each entry of each group that was not removed since."""
    last: dict[tuple[bytes, ID], AuditRecord] = {}
    lsn = 0
    for it in store.stream(name).audit():
        if it.lsn < lsn:
            raise Violation(f"{name!r}: the audit is not in order: {it} behind frame {lsn}")
        lsn = it.lsn
        if it.action == "destroy":
            last = {key: record for key, record in last.items() if key[0] != it.group}
        elif it.group is not None and it.id is not None and it.action not in ("create", "position"):
            last[it.group, as_id(it.id)] = it
    return last
