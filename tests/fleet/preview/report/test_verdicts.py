"""What a pack says, taken apart: one entry for each policy."""

from __future__ import annotations

from facts.lessons.verdict import encode
from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies
from fleet.preview.report.verdicts import shared, verdicts
from tests.fleet.preview.sample_changes import ADVISORY, MANDATORY


def judged(*violations: Violation) -> Policies:
    return Policies(state="judged", violations=violations)


def test_what_stops_comes_first_and_places_share_an_entry() -> None:
    first, second = verdicts(judged(*ADVISORY, MANDATORY))
    assert (first.policy, first.stops, first.severity) == ("no-surge-on-gpu-pods", True, "high")
    assert [finding.subject.rpartition("::")[2] for finding in second.findings] == ["chat", "code"]
    assert not second.stops


def test_the_parts_of_a_message_are_told_apart() -> None:
    (verdict,) = verdicts(judged(MANDATORY))
    (finding,) = verdict.findings
    assert verdict.statement == MANDATORY.description
    assert f"{verdict.statement}\n{encode(finding)}" == MANDATORY.message
    assert (finding.id, finding.severity, finding.subject) == (MANDATORY.policy, "error", MANDATORY.urn)
    assert (finding.allowed, finding.write) == ("0", "maxSurge: 0, maxUnavailable: 1")


def test_a_message_of_another_pack_is_kept_as_it_is() -> None:
    plain = Violation(policy="p", level="mandatory", urn="", message="line one\nNote: line two")
    (verdict,) = verdicts(judged(plain))
    assert verdict.findings[0].found == "line one\nNote: line two"
    assert (verdict.statement, verdict.findings[0].subject) == ("", "")


def test_a_message_that_is_only_the_description_is_not_empty() -> None:
    bare = Violation(policy="p", level="advisory", urn="urn:x::a", message="Do this.", description="Do this.")
    assert verdicts(judged(bare))[0].findings[0].found == "Do this."


def test_a_fix_is_shared_only_if_it_is_the_same_everywhere() -> None:
    (verdict,) = verdicts(judged(*ADVISORY))
    assert shared(verdict.findings, "write") == "annotate the pod"
    assert shared(verdict.findings, "subject") == ""


def test_one_policy_at_two_levels_is_two_entries() -> None:
    pair = [Violation(policy="p", level=level, urn="", message="m") for level in ("advisory", "mandatory")]
    assert [one.level for one in verdicts(judged(*pair))] == ["mandatory", "advisory"]
