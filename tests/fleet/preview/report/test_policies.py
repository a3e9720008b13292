"""What a pack says, as findings of the one shape."""

from __future__ import annotations

import pytest

from facts.finding import Finding
from fleet.preview.policy import Violation
from fleet.preview.policy_config import Level
from fleet.preview.report.model import Policies
from fleet.preview.report.policies import findings_of, format_blocking, without_told
from tests.fleet.preview.sample_changes import ADVISORY, MANDATORY
from tests.support.rows import each_row


def judged(*violations: Violation) -> Policies:
    return Policies(state="judged", violations=violations)


def test_what_blocks_comes_first_and_places_of_one_policy_stay_together() -> None:
    found = findings_of(judged(ADVISORY[0], MANDATORY, ADVISORY[1]))
    assert [(one.id, one.severity, one.subject) for one in found] == [
        ("no-surge-on-gpu-pods", "error", "server-deployment"),
        ("declared-needs-missing", "warning", "chat"),
        ("declared-needs-missing", "warning", "code"),
    ]


def test_a_message_of_another_pack_is_kept_as_it_is() -> None:
    plain = Violation(policy="p", level="mandatory", urn="", message="line one\nNote: line two")
    (found,) = findings_of(judged(plain))
    assert (found.subject, found.found, found.allowed) == ("the stack", "line one\nNote: line two", "")


def test_what_is_repeated_on_purpose_is_deliberate_and_told_in_short() -> None:
    repeated = Violation(policy="repeated-on-purpose", level="advisory", urn="urn:x::a", message="x\nwhy: y\nwrite: z")
    (found,) = findings_of(judged(repeated))
    assert (found.severity, found.found, found.why, found.write) == ("deliberate", "x", "", "")


@each_row(
    ("policy", "level", "message", "is_told"),
    [
        ("repeated-on-purpose", "advisory", "a-lesson: its statement", False),
        ("repeated-on-purpose", "advisory", "another-lesson: its statement", True),
        ("a-lesson", "advisory", "said by a policy", False),
        ("a-lesson", "mandatory", "said by a policy", True),
        ("no-lesson", "advisory", "said by a policy", True),
    ],
)
def test_advice_that_the_stack_file_check_gives_is_not_repeated(
    policy: str, level: Level, message: str, is_told: bool
) -> None:
    violation = Violation(policy=policy, level=level, urn="urn:x::a", message=message)
    checked = [Finding(id="a-lesson", subject="vllm-fleet:server.engine.x", severity="deliberate")]
    assert bool(without_told(judged(violation), checked).violations) is is_told


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("the nodes cost $545.18 an hour, above $420.00 (16 x $34.07)", "p $545.18 > $420.00"),
        ("spec.replicas is 3. It must be 2", "p (spec.replicas is 3)"),
        ("x" * 300, f"p ({'x' * 99}…)"),
    ],
)
def test_the_verdict_names_the_policy_with_its_figure(message: str, said: str) -> None:
    assert format_blocking(judged(Violation(policy="p", level="mandatory", urn="", message=message))) == said


def test_many_blocking_policies_are_counted_beyond_three() -> None:
    several = (Violation(policy=f"p{number}", level="mandatory", urn="", message="m") for number in range(5))
    assert format_blocking(judged(*several)) == "p0 (m); p1 (m); p2 (m); 2 more"
