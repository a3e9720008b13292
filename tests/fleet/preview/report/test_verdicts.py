"""What a pack says, taken apart: one entry for each policy."""

from __future__ import annotations

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies
from fleet.preview.report.verdicts import shared, verdicts
from tests.fleet.preview.sample_changes import ADVISORY, MANDATORY


def judged(*violations: Violation) -> Policies:
    return Policies(state="judged", violations=violations)


def test_what_stops_comes_first_and_places_share_an_entry() -> None:
    first, second = verdicts(judged(*ADVISORY, MANDATORY))
    assert (first.policy, first.stops, first.severity) == ("no-surge-on-gpu-pods", True, "high")
    assert [place.name for place in second.places] == ["chat", "code"]
    assert not second.stops


def test_the_parts_of_a_message_are_told_apart() -> None:
    (verdict,) = verdicts(judged(MANDATORY))
    (place,) = verdict.places
    assert verdict.statement == MANDATORY.description
    rebuilt = [verdict.statement, place.what, f"Why: {place.why}", f"Fix: {place.fix}", f"At stake: {place.at_stake}"]
    assert "\n".join(rebuilt) == MANDATORY.message


def test_a_message_of_another_pack_is_kept_as_it_is() -> None:
    plain = Violation(policy="p", level="mandatory", urn="", message="line one\nNote: line two")
    (verdict,) = verdicts(judged(plain))
    assert verdict.places[0].what == "line one\nNote: line two"
    assert (verdict.statement, verdict.places[0].name) == ("", "")


def test_a_message_that_is_only_the_description_is_not_empty() -> None:
    bare = Violation(policy="p", level="advisory", urn="urn:x::a", message="Do this.", description="Do this.")
    assert verdicts(judged(bare))[0].places[0].what == "Do this."


def test_a_fix_is_shared_only_if_it_is_the_same_everywhere() -> None:
    (verdict,) = verdicts(judged(*ADVISORY))
    assert shared(verdict.places, "fix") == "annotate the pod"
    assert shared(verdict.places, "urn") == ""


def test_one_policy_at_two_levels_is_two_entries() -> None:
    pair = [Violation(policy="p", level=level, urn="", message="m") for level in ("advisory", "mandatory")]
    assert [one.level for one in verdicts(judged(*pair))] == ["mandatory", "advisory"]
