"""From an API server's sentence back to the rule."""

from __future__ import annotations

from lab.autopilot.verdicts import verdict

REFUSED = (
    "pods \"app\" is forbidden: ValidatingAdmissionPolicy 'autopilot-security' with binding 'autopilot-security-pods' denied "
    "request: privileged containers are refused: side. Leave securityContext.privileged out"
)


def test_a_refusal_is_an_error_with_its_fix_and_its_source() -> None:
    found = verdict(REFUSED)
    assert found is not None
    assert (found.policy, found.effect) == ("autopilot-security", "refused")
    assert found.problem == "privileged containers are refused: side"
    finding = found.finding("Deployment/app")
    assert (finding.severity, finding.subject) == ("error", "Deployment/app")
    assert finding.write == "Leave securityContext.privileged out"
    assert "rule autopilot-security" in finding.found
    assert "autogke-disallow-privilege" in finding.found


def test_other_voices_of_the_api_server_are_not_verdicts() -> None:
    assert verdict('unknown field "spec.foo"') is None
    assert verdict("ValidatingAdmissionPolicy 'somebody-elses' with binding 'b' denied request: no") is None
