"""Cold storage: sealed segments moved to object storage, read through from there, brought back, swept.

    with diskstream.open("data") as store:
        report = move_out(store.stream("taxi"), "s3://bucket/prefix", older_than_ms=30 * 86_400_000)

`diskstream cold` has a verb for each.
"""

from diskstream.cold.adopting import AdoptReport, adopt
from diskstream.cold.moving import move_out
from diskstream.cold.returning import bring_back
from diskstream.cold.sweeping import SweepReport, Unneeded, sweep
from diskstream.cold.transfer import Moved, MoveReport

__all__ = ["AdoptReport", "MoveReport", "Moved", "SweepReport", "Unneeded", "adopt", "bring_back", "move_out", "sweep"]
