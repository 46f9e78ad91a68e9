"""The address sanitizer: the tests of the Rust crates, the corpus of the fuzzer and tests of the bindings, under it."""

import shutil

from tests.fuzz.sanitize import sanitized
from tests.torture.model import Budget, Report

__all__ = ["run"]


def run(budget: Budget) -> Report:
    """Builds and runs them, which takes the minutes that it takes. There is no short form."""
    report = Report("sanitize", budget.seed)
    if budget.at_most is not None:
        report.skipped.append("all of it: what is instrumented must be built first, which takes minutes")
    elif shutil.which("cargo") is None:
        report.skipped.append("all of it: there is no cargo")
    else:
        outcome = sanitized(budget.say)
        report.tried += outcome.passed
        report.violations += [outcome.failed] if outcome.failed else []
        report.skipped += [outcome.left_out] if outcome.left_out else []
    return budget.finished(report)
