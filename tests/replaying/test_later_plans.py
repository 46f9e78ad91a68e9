"""A plan of a replay that a later version wrote: what is not known of it is passed over, another format is refused."""

import json

import pytest

from diskstream import NewerFormatError
from diskstream.checked_json import checked, with_check
from diskstream.replaying.plans import Plan

PLAN = Plan("s", "x", ("0-0", "+"), (), "keep", "stream:y", "1-0", "9-0", identity="00" * 16)


def later(**more: object) -> str:
    return json.dumps(with_check(checked(PLAN.as_json()) | more))


def test_a_member_that_is_not_known_is_passed_over() -> None:
    """The replay could not go on, and was to be given another name: what was sent would have been sent again."""
    assert Plan.from_json(later(pace={"speed": 2}), "plan") == PLAN


def test_a_later_format_is_refused() -> None:
    with pytest.raises(NewerFormatError, match="upgrade"):
        Plan.from_json(later(format=2, pace={"speed": 2}), "plan")
