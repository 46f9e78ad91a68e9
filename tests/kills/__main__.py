"""One kill or one error again, as a violation names it: ``python -m tests.kills kill:POLICY:SEED:PLACE``."""

import sys

from tests.kills.run import Job, run
from tests.kills.workload import Script

if __name__ == "__main__":
    kind, policy, seed, place = sys.argv[1].split(":")
    outcome = run(Job(kind, Script.parse(policy, seed), None, only=int(place)))
    sys.stdout.write("\n".join(outcome.violations or ["no violation"]) + "\n")
    sys.exit(bool(outcome.violations))
